"""What triage takes for the failure of a case in a part of its model."""

from dataclasses import replace

import pytest

from compilegate.culprits.grouping import Culprit, culprits
from compilegate.judging.budget import Budget
from compilegate.records.observation import Failure
from compilegate.triage.search import sightings
from compilegate.triage.search.ladder import Stage
from compilegate.triage.search.suspect import Suspect
from tests.unit.failing import failures
from tests.unit.making import (
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_difference,
    make_error,
    make_failed_observation,
    make_observation,
    make_place,
    make_verdict,
)

GPU, CPU = (f"mlp-{device}-infer-f32-default-static" for device in ("cuda", "cpu"))
LOST = {"kind": "AcceleratorError", "message": "CUDA error: an illegal memory access"}
DEAD = {"kind": "SIGABRT", "message": "the process died of SIGABRT"}
WRONG = (make_error(compiled_rms=1.0, compiled_max=1.0),)
RETURNED = (make_difference("output", "aliasing", "input[0] = output", "no shared memory"),)


def returned(*, errors=(), differences=(), case=GPU):
    checked = make_checked(*errors, differences=differences)
    return make_observation(case=case, calls=(make_call(outputs=checked),))


def changed(where):
    state = make_checked(differences=(make_difference(where, "value", "1", "2"),))
    return make_observation(
        case=GPU, calls=(make_call(outputs=make_checked(make_error()), state=state),)
    )


def ended(status, failure, case=GPU):
    return make_failed_observation(status, case, call="call 1", **failure)


def suspect_of(observation):
    case = observation.case
    verdict = make_verdict("failed", case=case, aspect="forward")
    culprit = Culprit(("wrong",), "wrong", "forward", [case], ["forward"])
    return Suspect(culprit, observation, [verdict], lambda case: Budget(), "2.15.0")


@pytest.mark.parametrize(
    ("of_case", "of_part", "state"),
    [
        (returned(errors=WRONG), returned(errors=WRONG), "bad"),
        (returned(errors=WRONG), returned(differences=RETURNED), "unobservable"),
        (returned(differences=RETURNED), returned(differences=RETURNED), "bad"),
        (returned(differences=RETURNED), returned(errors=WRONG), "unobservable"),
        (returned(errors=WRONG), returned(errors=(make_error(),)), "good"),
    ],
)
def test_numbers_and_layouts_are_different_failures(of_case, of_part, state):
    assert suspect_of(of_case).seen_in_part(of_part).state == state


@pytest.mark.parametrize(
    ("call", "where", "state"),
    [
        ("call 1", "buffer mean", "unobservable"),
        ("call 2", "buffer mean", "bad"),
        ("call 1", "input[0]", "bad"),
        ("call 2", "attribute calls", "unobservable"),
    ],
)
def test_state_of_a_submodule_makes_later_results_wrong_and_no_earlier_ones(call, where, state):
    suspect = suspect_of(returned(errors=WRONG))
    suspect.verdicts[0] = replace(suspect.verdict, details=(f"{call} (batch=6): output",))
    assert suspect.seen_in_part(changed(where)).state == state


@pytest.mark.parametrize(
    ("of_case", "of_part", "state"),
    [
        (ended("raised", LOST), ended("crashed", DEAD), "bad"),
        (ended("crashed", DEAD), ended("raised", LOST), "bad"),
        (ended("raised", LOST), ended("timed_out", DEAD), "unobservable"),
        (ended("raised", LOST, CPU), ended("crashed", DEAD, CPU), "unobservable"),
        (ended("crashed", DEAD, CPU), ended("raised", LOST, CPU), "unobservable"),
        (ended("raised", {"kind": "TypeError"}), ended("crashed", DEAD), "unobservable"),
    ],
)
def test_a_lost_gpu_raises_or_aborts(of_case, of_part, state):
    suspect = suspect_of(of_case)
    assert suspect.seen_in_part(of_part).state == state
    assert suspect.seen_in(of_part).state == state


@pytest.mark.parametrize(("call", "state"), [("call 1", "bad"), ("", "unobservable")])
def test_a_recipe_that_raised_is_not_what_compiled_code_raises_now(call, state):
    of_recipe = make_failed_observation("raised", CPU, call=call, kind="KeyError")
    assert suspect_of(of_recipe).seen_in(ended("raised", {"kind": "TypeError"}, CPU)).state == state


def test_a_suspect_shows_all_that_breaks_at_the_line_of_its_culprit():
    reasons = ("Call to `print`", 10), ("Call to `.item()`", 10), ("Call to `input`", 11)
    breaks = (make_break(reason, place=make_place(line)) for reason, line in reasons)
    found = failures(make_observation(capture=make_capture(breaks=tuple(breaks))))
    first, other = culprits(found)
    shown = [
        "\n".join(suspect.shown)
        for culprit in (first, other)
        for suspect in [
            Suspect(culprit, found[0].observation, [found[0].verdict], lambda _: Budget(), "2.15.0")
        ]
    ]
    assert all(word in shown[0] for word in ("print", "item"))
    assert "input" not in shown[0]
    assert "item" not in shown[1]


def test_of_a_case_that_compiles_nothing_the_break_is_shown():
    capture = make_capture(graphs=0, breaks=(make_break(), make_break("Call to `f`")))
    made = make_observation(capture=capture)
    found = failures(made)
    (culprit,) = culprits(found)
    suspect = Suspect(culprit, made, [found[0].verdict], lambda _: Budget(), "2.15.0")
    assert suspect.was_not_compiled
    assert suspect.reason == make_break().reason
    assert suspect.seen_in(made).state == "bad"
    partly = make_observation(capture=make_capture(breaks=(make_break(),)))
    assert suspect.seen_in(partly).state == "good"


@pytest.mark.parametrize(
    ("stage", "call", "is_first"),
    [
        ("compile", "", True),
        ("vary", "", False),
        ("compile", "call 1 (batch=2)", True),
        ("vary", "call 2 (batch=3)", False),
    ],
)
def test_a_process_that_died_while_compiling_died_in_the_first_call(stage, call, is_first):
    failure = Failure(stage=stage, kind="signal", message="SIGSEGV", call=call)
    made = make_observation(status="crashed", failure=failure)
    assert suspect_of(made).is_of_first_call is is_first


LOST = (make_difference("input[0]", "elements", "(1, 1)", "(0, 0)"),)
OUTPUT = (make_difference("output", "elements", "(3,)", "(4,)"),)


def called(*, output=(), state=()):
    call = make_call(
        outputs=make_checked(make_error(), differences=output),
        state=make_checked(differences=state),
    )
    return make_observation(calls=(call,))


@pytest.mark.parametrize(
    ("reduced", "state"),
    [
        (called(state=LOST), "bad"),
        (called(state=LOST, output=OUTPUT), "unobservable"),
        (called(state=(make_difference("attribute n", "value", "1", "2"),)), "unobservable"),
        (called(), "good"),
    ],
    ids=["the same", "another output, too", "another kind of state", "nothing"],
)
def test_a_reduced_case_must_show_the_same_failure_and_no_other(reduced, state):
    whole = called(state=LOST)
    (failure,) = failures(whole)
    culprit = Culprit(("lost",), "lost", "side_effects", [failure.verdict.case], ["side_effects"])
    suspect = Suspect(culprit, whole, [failure.verdict], lambda case: Budget(), "2.15.0")
    assert sightings.in_reduced(suspect, reduced).state == state


LAYOUT = (make_difference("output", "stride", "(1, 2)", "(2, 1)"),)
MORE_WRONG = (make_error(compiled_rms=2.0, compiled_max=3.0),)
UNCOMPILED = make_observation(case=CPU, capture=make_capture(graphs=0))
BAD_TYPE = {"kind": "InductorError", "message": "TypeError: not a number", "traceback": ""}
OTHER_TYPE = {"kind": "InductorError", "message": "TypeError: not a list", "traceback": ""}
NO_CPP = {"kind": "InductorError", "message": "CppCompileError: no g++", "traceback": ""}
EXITS, OTHER_EXIT = (
    {"kind": "exit", "message": f"the process exited with status {status} without an answer"}
    for status in (3, 4)
)
ABORTS = {"kind": "SIGABRT", "message": "the process died of SIGABRT"}
SEGFAULT = {"kind": "SIGSEGV", "message": "the process died of SIGSEGV"}


@pytest.mark.parametrize(
    ("then", "now", "is_same"),
    [
        (returned(errors=WRONG, case=CPU), returned(errors=MORE_WRONG, case=CPU), True),
        (returned(errors=WRONG, case=CPU), returned(differences=LAYOUT, case=CPU), False),
        (returned(errors=WRONG, case=CPU), UNCOMPILED, False),
        (ended("raised", BAD_TYPE, CPU), ended("raised", OTHER_TYPE, CPU), True),
        (ended("raised", BAD_TYPE, CPU), ended("raised", NO_CPP, CPU), False),
        (ended("crashed", ABORTS, CPU), ended("crashed", SEGFAULT, CPU), True),
        (ended("crashed", EXITS, CPU), ended("crashed", EXITS, CPU), True),
        (ended("crashed", EXITS, CPU), ended("crashed", OTHER_EXIT, CPU), False),
        (ended("crashed", EXITS, CPU), ended("crashed", SEGFAULT, CPU), False),
    ],
)
def test_a_case_shows_the_failure_of_the_run_again_or_another_one(then, now, is_same):
    (culprit,) = culprits(failures(then))
    verdicts = [each.verdict for each in failures(then)]
    suspect = Suspect(culprit, then, verdicts, lambda case: Budget(), "2.15.0")
    seen = sightings.again(suspect, now)
    assert (seen.state, seen.is_other) == (("bad", False) if is_same else ("unobservable", True))
    stage = Stage(seen={"inductor": seen})
    said = stage.doubt.startswith("the failure did not show again: it shows another failure: ")
    assert (stage.is_confirmed, said) == (is_same, not is_same)
