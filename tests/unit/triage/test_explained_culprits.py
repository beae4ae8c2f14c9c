"""What is wrong first explains what is wrong later, in one case."""

import pytest

from compilegate.judging import budgets_toml
from compilegate.runs import files
from compilegate.triage.folders import suspects
from tests.unit.failing import WRONG, A, failures, found
from tests.unit.making import (
    make_call,
    make_checked,
    make_difference,
    make_error,
    make_header,
    make_observation,
)

ORDER = make_checked(differences=[make_difference("attribute order[0]", "value", "2", "0")])
OUTPUT = make_checked(make_error("output", **WRONG))
TRAIN = "one-cpu-train-f32-default-static"


def calls(*groups, case=A):
    return make_observation(case=case, calls=tuple(make_call(**each) for each in groups))


@pytest.mark.parametrize(
    ("first", "second", "aspects"),
    [
        ({"state": ORDER}, {"outputs": OUTPUT}, [["forward", "side_effects"]]),
        ({"state": ORDER, "outputs": OUTPUT}, {}, [["forward"], ["side_effects"]]),
        ({}, {"state": ORDER, "outputs": OUTPUT}, [["forward"], ["side_effects"]]),
        ({"outputs": OUTPUT}, {"state": ORDER}, [["forward"], ["side_effects"]]),
    ],
    ids=["before", "at once", "both later", "after"],
)
def test_state_that_is_wrong_explains_outputs_of_later_calls(first, second, aspects):
    assert [culprit.aspects for culprit in found(calls(first, second))] == aspects


def test_it_names_what_is_wrong_first():
    (culprit,) = found(calls({"state": ORDER}, {"outputs": OUTPUT}))
    assert culprit.aspect == "side_effects"
    assert "attribute order[0]" in culprit.text


def test_triage_looks_at_what_is_wrong_first(tmp_path):
    both = failures(calls({"state": ORDER}, {"outputs": OUTPUT}))
    outputs = failures(calls({"outputs": OUTPUT}))
    for shown, aspect in ((both, "side_effects"), (outputs, "forward")):
        run = files.Run(tmp_path / "run.jsonl", make_header((A,)))
        run.observations[A] = shown[0].observation
        run.verdicts |= {(A, each.verdict.aspect): each.verdict for each in shown}
        (suspect,) = suspects(run, budgets_toml.read([], []))
        assert suspect.verdict.aspect == aspect


@pytest.mark.parametrize(("error", "count"), [(WRONG, 1), ({}, 2)])
def test_outputs_that_share_memory_and_have_wrong_numbers_explain_gradients(error, count):
    aliasing = make_difference("output", "aliasing", "output.k; output.v", "output.k = output.v")
    outputs = make_checked(make_error("output.v", **error), differences=[aliasing])
    gradients = make_checked(make_error("gradient weight", **WRONG))
    seen = found(calls({"outputs": outputs, "gradients": gradients}, case=TRAIN))
    assert len(seen) == count
