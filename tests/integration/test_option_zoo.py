"""``--zoo FILE``: a user's own models, which only children import."""

import time
from pathlib import Path

import pytest

from tests.integration.conftest import FORWARD, ZOOS
from tests.integration.processes import living

HEAD = """\
import torch
from compilegate import Example, model
"""
MINE = f"""{HEAD}
@model("mine", family="tiny", vary={{"batch": (3, 2)}})
def mine():
    return Example(torch.sin, inputs=lambda batch: (torch.randn(batch),))
"""
TAKEN = """\
from compilegate import Example, model


@model("matvec")
def taken():
    return Example(abs, (1,))
"""


def test_models_of_several_files_are_judged_in_one_session(compilegate, write, witness):
    session = compilegate(
        *(FORWARD, "-m", "cpu", "--models", "mine", "--models", "other"),
        *("-o", f"zoo={write('mine.py', MINE)}", "--zoo", str(ZOOS / "tiny.py")),
        env=witness.env,
    )
    assert session.status == 0, session.output
    assert {case.split("-")[0] for case in session.observed} == {"mine", "other"}
    assert {"infer", "train"} == {case.split("-")[2] for case in session.observed}
    assert witness.seen == {"child", "zoo listing"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def helper():\n    return 1 / 0\n\n\nhelper()\n", "ZeroDivisionError: division by zero"),
        ("import nowhere\n", "No module named 'nowhere' at wrong.py:1"),
        ("x = 1\n", "wrong.py:1: the file defines no model"),
        (TAKEN, "wrong.py:4: model 'matvec' is already defined in"),
        ("import os\nos._exit(3)\n", "exited with status 3"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence_before_anything_is_observed(
    compilegate, write, witness, runs, *, text, message
):
    """The fork server, which begins to import torch at the same time, ends with the session."""
    started = time.monotonic()
    session = compilegate("--zoo", write("wrong.py", text), env=witness.env)
    assert session.status == 4
    lines = [line for line in session.output.splitlines() if line.startswith("ERROR: ")]
    assert len(lines) == 1, session.output
    assert message in lines[0]
    assert "wrong.py" in lines[0]
    assert "Traceback" not in session.output
    assert "import torch" not in witness.seen
    assert not runs.exists()
    assert not living(runs), living(runs)
    assert time.monotonic() - started < 30  # about 2 s on an idle machine


def test_a_wrong_file_is_reported_before_workers_are_counted(compilegate, write, witness):
    """With ``-n auto`` and without ``-m``, the count needs the environment, which takes seconds."""
    session = compilegate(
        "--zoo", write("wrong.py", "import nowhere\n"), "-n", "auto", env=witness.env
    )
    assert session.status == 4
    assert session.output.startswith("compilegate: starting torch")
    assert session.output.count("ERROR: ") == session.output.count("at wrong.py:1") == 1
    assert "import torch" not in witness.seen


def test_one_name_in_two_files_is_refused(compilegate, write):
    first, second = write("first.py", TAKEN.replace("matvec", "mine")), "second.py"
    session = compilegate("--zoo", first, "--zoo", write(second, Path(first).read_text()))
    assert session.status == 4
    assert "second.py:4: model 'mine' is already defined in" in session.output


def test_a_missing_file_is_refused(compilegate, tmp_path):
    session = compilegate("--zoo", str(tmp_path / "missing.py"))
    assert session.status == 4
    assert f"no zoo file {tmp_path / 'missing.py'}" in session.output
