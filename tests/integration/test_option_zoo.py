"""``--zoo FILE``: a user's own models, which only children import."""

from tests.integration.conftest import FORWARD, ZOOS

HEAD = """\
import torch
from compilegate.zoo.registry import Example, model
"""
MINE = f"""{HEAD}
@model("mine", family="tiny", vary={{"batch": (3, 2)}})
def mine():
    return Example(torch.sin, inputs=lambda batch: (torch.randn(batch),))
"""


def test_models_of_several_files_are_judged_beside_each_other(compilegate, write, witness):
    session = compilegate(
        *(FORWARD, "-m", "cpu", "--models", "mine", "--models", "other"),
        *("-o", f"zoo={write('mine.py', MINE)}", "--zoo", str(ZOOS / "tiny.py")),
        env=witness.env,
    )
    assert session.status == 0, session.output
    assert {case.split("-")[0] for case in session.observed} == {"mine", "other"}
    assert {"infer", "train"} == {case.split("-")[2] for case in session.observed}
    assert witness.seen == {"child"}


def test_a_file_that_cannot_be_imported_shows_the_users_traceback(compilegate, write):
    broken = write("broken.py", "def helper():\n    return 1 / 0\n\n\nhelper()\n")
    session = compilegate("--zoo", broken)
    assert session.status == 4
    assert f"cannot import the zoo file {broken}" in session.output
    assert f'File "{broken}", line 2, in helper' in session.output
    assert "ZeroDivisionError: division by zero" in session.output
    assert "fixtures/" not in session.output


def test_a_file_that_ends_the_process_is_refused(compilegate, write):
    session = compilegate("--zoo", write("exits.py", "import os\nos._exit(3)\n"))
    assert session.status == 4
    assert "exited with status 3" in session.output
    assert "exits.py" in session.output


def test_a_name_that_the_shipped_zoo_has_is_refused(compilegate, write):
    session = compilegate("--zoo", write("taken.py", MINE.replace("mine", "matvec")))
    assert session.status == 4
    assert "taken.py:" in session.output
    assert "model 'matvec' is already defined in" in session.output


def test_a_missing_file_is_refused(compilegate, tmp_path):
    session = compilegate("--zoo", str(tmp_path / "missing.py"))
    assert session.status == 4
    assert f"no zoo file {tmp_path / 'missing.py'}" in session.output
