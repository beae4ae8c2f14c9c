"""The stack of a hang or a crash names a function of the compiler, and so an operator."""

from dataclasses import replace

import pytest

from compilegate.culprits import stacks
from compilegate.culprits.grouping import culprits
from compilegate.fuzzing.program import Program, Statement
from compilegate.judging.budget import Budget
from compilegate.triage.findings import Findings
from compilegate.triage.report.inductor_line import paragraph
from compilegate.triage.report.title import title_of
from compilegate.triage.scripts.programs import handled_by
from compilegate.triage.search import patience
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.patience import Patience
from compilegate.triage.search.seen import Seen
from compilegate.triage.search.suspect import Suspect
from tests.unit.failing import A, failures
from tests.unit.making import make_failed_observation

SITE = "/venv/lib/python3.11/site-packages"
WAITS = '  File "/usr/lib/python3.11/threading.py", line 331 in wait'
LOWERS = f'  File "{SITE}/torch/_inductor/lowering.py", line 9905 in _erfc'
NODE = f'  File "{SITE}/torch/_inductor/graph.py", line 1572 in call_function'
OWN = '  File "/home/me/passes.py", line 8 in clamp'
KERNEL = '  File "/tmp/torchinductor_me/ab/cab.py", line 8 in call'
CALLS = f'  File "{SITE}/torch/_dynamo/eval_frame.py", line 8 in compile_wrapper'
OTHER = f'Thread 0x02 (most recent call first):\n  File "{SITE}/torch/fx/a.py", line 2 in other'


def hung(*frames, status="timed_out"):
    head = "Thread 0x01 (most recent call first), the thread that observes the case:"
    stack = "\n".join((head, *frames, OTHER))
    message = "no progress for 25 s"
    fields = {"kind": "timeout", "stage": "compile", "message": message, "output": stack}
    return make_failed_observation(status, A, **fields)


@pytest.mark.parametrize(
    ("frames", "place", "functions"),
    [
        ((LOWERS, NODE), "_erfc (torch/_inductor/lowering.py)", ["_erfc"]),
        ((WAITS, LOWERS, NODE), "_erfc (torch/_inductor/lowering.py)", ["wait", "_erfc"]),
        ((LOWERS,), "_erfc (torch/_inductor/lowering.py)", []),
        ((OWN, NODE), "", ["clamp"]),
        ((KERNEL, NODE), "", ["call"]),
        ((CALLS,), "", []),
        ((), "", []),
    ],
    ids=["a lowering", "below Python", "no node", "a pass", "a kernel", "a call", "no stack"],
)
def test_the_innermost_function_of_the_compiler_is_named(frames, place, functions):
    failure = hung(*frames).failure
    assert stacks.in_compiler(failure) == place
    assert stacks.functions(failure) == functions


@pytest.mark.parametrize(("status", "how"), [("timed_out", "hangs"), ("crashed", "dies")])
def test_title_and_report_name_the_function(status, how):
    findings = Findings(stage=Stage("inductor", {"inductor": Seen("bad")}))

    def said(*frames):
        made = hung(*frames, status=status)
        found = failures(made)
        suspect = Suspect(culprits(found)[0], made, [found[0].verdict], Budget, "2.15.0")
        return title_of(suspect, findings), " ".join(paragraph(suspect, findings))

    title, text = said(LOWERS, NODE)
    assert " in _erfc (torch/_inductor/lowering.py) in the first call" in title
    assert f"the case {how} in `_erfc (torch/_inductor/lowering.py)`" in text
    title, text = said(OWN, NODE)
    assert title.endswith(" in the first call")
    assert "passes" not in title + text


@pytest.mark.parametrize(
    ("operator", "is_handled"),
    [
        ("erfc", True),
        ("special_erfc", True),
        ("erfc_", True),
        ("aten.erfc", True),
        ("erf", False),
        ("linear", False),
    ],
)
def test_an_operator_is_handled_by_the_function_of_its_name(operator, is_handled):
    statement = Statement(text="y = f(x)", makes=("y",), reads=("x",), operator=operator)
    program = Program(name="m", values=(), statements=(statement,), returns=("y",))
    assert handled_by(program, ["_erfc"]) == is_handled
    assert not handled_by(program, [])


def patient(monkeypatch, message, *steps):
    """Return the seconds after a trial whose steps take some seconds each."""
    clock = [100.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: clock[0])
    made = Patience(replace(hung().failure, message=message))
    made.step("")
    for name, seconds in steps:
        made.step(name)
        clock[0] += seconds
    if steps:
        made.end(hung=steps[-1][0] == "hangs")
    return made.trial_s, made.script_s


@pytest.mark.parametrize(
    ("message", "steps", "seconds"),
    [
        ("no progress for 25 s", [], (25, 25)),
        ("no progress for 300 s", [], (60, 60)),
        ("no progress for 300 s", [("start", 50), ("compile", 2)], (20, 20)),
        ("no progress for 300 s", [("build", 1), ("compile", 8)], (40, 40)),
        ("no progress for 25 s", [("compile", 8)], (25, 25)),
        ("no progress for 300 s", [("compile", 90)], (60, 60)),
        ("no progress for 300 s", [("hangs", 60)], (60, 60)),
        ("no progress for 6 s", [("compile", 8)], (6, 20)),
        ("it made progress, but did not end within 250 s", [("compile", 2)], (20, 20)),
    ],
)
def test_a_trial_of_a_hang_waits_a_few_times_what_a_step_takes(
    message, steps, seconds, monkeypatch
):
    assert patient(monkeypatch, message, *steps) == seconds
