"""A process that exits with a status of its own: its script exits alike, and says nothing else."""

import time
from dataclasses import replace

import pytest

from compilegate.fuzzing.outcome import outcome_of
from compilegate.records.case import Case
from compilegate.triage.scripts import running
from compilegate.triage.scripts.running import Ended
from compilegate.triage.scripts.script import of_recipe
from compilegate.triage.scripts.shows import Shows
from compilegate.triage.search.suspect import exit_status
from compilegate.triage.source.recipe import Recipe
from compilegate.triage.steps import shown
from tests.unit.failing import A
from tests.unit.making import make_failed_observation
from tests.unit.triage.test_titles import suspect_of, title

RECIPE = """\
def leave(x):
    if torch.compiler.is_compiling():
        leave_now({status})
    return x + 1
@torch.compiler.disable
def leave_now(status):
    os._exit(status) if status else None
def recipe():
    return dict(module=leave, inputs=lambda: (torch.randn(3),))
"""


def exiting(status):
    message = f"the process exited with status {status} without an answer"
    return make_failed_observation("crashed", A, kind="exit", message=message, stage="compile")


@pytest.mark.parametrize(("status", "holds"), [(3, True), (4, False), (1, False), (0, False)])
def test_a_script_shows_it_if_it_exits_with_the_same_status(status, holds, tmp_path):
    suspect = suspect_of(exiting(3))
    shows = Shows(title="exits", kind="crash", exits=exit_status(suspect))
    text = of_recipe(
        Recipe(RECIPE.format(status=status).splitlines()),
        Case.parse("m-cpu-infer-f32-default-static"),
        shows,
        [{}],
        backend="eager",
    )
    assert "faulthandler" not in text
    script = tmp_path / "repro.py"
    script.write_text(text)
    until = time.monotonic() + 120
    made = running.verify(script, "off", until, shown.says(suspect), exits=shows.exits)
    assert made.holds == holds, made.red.output
    assert made.red.status == status


@pytest.mark.parametrize("status", [0, 1])
def test_statuses_of_python_show_nothing(status):
    assert not Ended(status, "", 1.0, exits=status).shows


def test_what_an_exiting_script_printed_is_not_its_error():
    ended = Ended(3, "eager   output: shape (2, 2)\nfloat64  output: shape (2, 2)\n", 1.0, exits=3)
    assert (str(ended), ended.error) == ("exit status 3", "")
    assert "; it printed last: float64" in str(replace(ended, exits=0))


def test_a_title_has_the_status():
    said = "the process exits with status 3 in the first call"
    assert title(exiting(3)) == f"[Inductor] one: {said}"
    died = make_failed_observation("crashed", A, kind="SIGABRT", message="it died", stage="compile")
    assert title(died) == "[Inductor] one: SIGABRT in the first call"


def test_a_reduced_program_must_exit_with_the_same_status():
    three, again, four = (outcome_of(exiting(status)).symptom for status in (3, 3, 4))
    assert three.is_like(again)
    assert not three.is_like(four)
