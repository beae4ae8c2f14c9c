"""The bisection of the compiler: what forked children tell it."""

import json
import sys

import pytest
from torch._inductor import compiler_bisector

from compilegate.observe.dissect import bisection
from compilegate.observe.dissect.bisection import works

NAMES = "call_counter_debug_info"
APPLIES = f"""
import sys
from torch._inductor import compiler_bisector
compiler_bisector.{NAMES}[7] = "aten.tanh.default"
"""


@pytest.fixture
def run(tmp_path):
    """Runs a script in a forked child: whether it works."""

    def write_and_run(text, hangs_s=60.0):
        script = tmp_path / "repro.py"
        script.write_text(text)
        return works(str(script), hangs_s)

    return write_and_run


@pytest.mark.parametrize(("status", "is_good"), [(0, True), (1, False)])
def test_the_names_that_a_child_keeps_in_memory_reach_the_bisector(
    run, monkeypatch, status, is_good
):
    monkeypatch.setattr(compiler_bisector, NAMES, {}, raising=False)
    assert run(f"{APPLIES}sys.exit({status})") is is_good
    assert getattr(compiler_bisector, NAMES) == {7: "aten.tanh.default"}


def test_a_bisector_that_keeps_names_in_files_is_left_alone(run, monkeypatch):
    monkeypatch.delattr(compiler_bisector, NAMES, raising=False)
    assert run("pass")
    assert not hasattr(compiler_bisector, NAMES)


@pytest.mark.parametrize(
    "text", ["import os; os.kill(os.getpid(), 9)", "import time; time.sleep(60)"]
)
def test_a_child_that_dies_or_hangs_does_not_work(run, monkeypatch, text):
    monkeypatch.setattr(compiler_bisector, NAMES, {}, raising=False)
    assert not run(text, hangs_s=1.0)
    assert getattr(compiler_bisector, NAMES) == {}


@pytest.mark.parametrize("first", ["cpp.simdlen", ""])
def test_an_option_may_be_tried_before_the_bisection_which_may_take_all_the_time(
    monkeypatch, capsys, first
):
    tried = []

    def note(options, *_):
        tried.append(*options)
        return "cpp.simdlen" in options

    def bisect(_):
        tried.append("bisection")
        raise TimeoutError

    monkeypatch.setattr(bisection, "_helps", note)
    monkeypatch.setattr(compiler_bisector.CompilerBisector, "do_bisect", bisect)
    monkeypatch.setattr(sys, "argv", ["", "repro.py", "inductor", "cpu", "9", first])
    bisection.main()
    assert tried.index("cpp.simdlen") == (0 if first else 4)
    assert tried.count("cpp.simdlen") == 1
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed[0] == {"helps": [{first: 1}] if first else []}
    assert printed[-1] == {"helps": [{"cpp.simdlen": 1}], "why": "TimeoutError: "}
