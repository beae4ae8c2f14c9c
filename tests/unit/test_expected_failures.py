"""Expected failures that match a text, and those that come and go."""

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.judging.finding import SHOWN, Finding
from compilegate.judging.judge import judge
from tests.unit.making import make_failure, make_observation


def expecting(**known):
    return Budget(expected_failures=(ExpectedFailure(**{"reason": "known"} | known),))


def passes(observation, budget):
    return Finding("passed", "as it should be")


def fails(observation, budget):
    return Finding("failed", "too many", ("one", "two"), {"recompiles": 2})


def found(*complaints):
    return lambda observation, budget: Finding.failure(complaints, more=["  as of call 1"])


@pytest.mark.parametrize(
    ("details", "outcome"),
    [
        (("call 1: stride differs",), "expected_failure"),
        (("call 1: stride differs", "call 2: stride differs"), "expected_failure"),
        ((*["call 1: stride differs"] * SHOWN, "call 2: stride differs"), "expected_failure"),
        ((*["call 1: stride differs"] * SHOWN, "call 2: error is 0.5"), "failed"),
        (("call 1: stride differs", "call 2: error is 0.5"), "failed"),
        (("call 1: error is 0.5",), "failed"),
    ],
)
def test_only_the_failure_that_was_described_is_expected(details, outcome):
    budget = expecting(aspect="forward", match="stride differs")
    judged = judge(make_observation(), budget, "forward", found(*details))
    assert judged.verdict.outcome == outcome
    hint = "is another one: not every line has its match 'stride differs'"
    assert any(hint in line for line in judged.verdict.details) is (outcome == "failed")
    passed = judge(make_observation(), budget, "forward", passes).verdict
    assert passed.outcome == "failed", "it was expected to fail"
    assert not any(hint in line for line in passed.details)
    lax = expecting(aspect="forward", match="stride differs", strict=False)
    judged = judge(make_observation(), lax, "forward", found(*details))
    assert not any(hint in line for line in judged.verdict.details), "it may be of any model"


@pytest.mark.parametrize(
    ("complaints", "reasons"),
    [
        (("stride differs", "dtype differs"), "padding; a cast: "),
        (("stride differs", "stride differs"), "padding: "),
        (("stride and dtype differ", "dtype differs"), "a cast: "),
        (("stride differs", "dtype differs", "error is 0.5"), None),
    ],
)
def test_two_known_failures_of_one_aspect_are_expected_together(complaints, reasons):
    entries = [
        ExpectedFailure(reason="padding", aspect="forward", match="stride"),
        ExpectedFailure(reason="a cast", aspect="forward", match="dtype"),
        ExpectedFailure(reason="elsewhere", aspect="gradients", match="error"),
    ]
    budget = Budget(expected_failures=tuple(entries))
    verdict = judge(make_observation(), budget, "forward", found(*complaints)).verdict
    if reasons is None:
        assert verdict.outcome == "failed"
    else:
        assert verdict.outcome == "expected_failure"
        assert verdict.summary.startswith(reasons)


@pytest.mark.parametrize(
    ("match", "outcome"), [("is slower", "expected_failure"), ("no difference", "failed")]
)
def test_what_else_was_measured_is_no_part_of_a_failure(match, outcome):
    def slower(observation, budget):
        return Finding("failed", "compiled code is slower", ("peak memory: no difference",))

    budget = expecting(aspect="slowdown", match=match)
    assert judge(make_observation(), budget, "slowdown", slower).verdict.outcome == outcome


@pytest.mark.parametrize(
    ("message", "outcome"),
    [("CantSplit: 3 not divisible by 2", "expected_failure"), ("out of range", "failed")],
)
def test_an_exception_that_ends_a_case_is_expected_by_its_message(message, outcome):
    traceback = "Traceback (most recent call last):\nInductorError: see above"
    failure = make_failure(stage="vary", message=message, traceback=traceback)
    seen = make_observation(status="raised", failure=failure)
    budget = expecting(stage="vary", match="CantSplit")
    assert judge(seen, budget, "forward", passes).verdict.outcome == outcome


def test_a_flaky_expected_failure_may_pass():
    loose = expecting(aspect="forward", strict=False)
    assert judge(make_observation(), loose, "forward", passes).verdict.outcome == "passed"
    strict = expecting(aspect="forward")
    assert judge(make_observation(), strict, "forward", passes).verdict.outcome == "failed"


def test_an_indicative_pass_contradicts_no_expected_failure():
    def once(*, indicative):
        return lambda observation, budget: Finding("passed", "no difference", indicative=indicative)

    budget = expecting(aspect="slowdown")
    found = [
        judge(make_observation(), budget, "slowdown", once(indicative=i)).verdict.outcome
        for i in (True, False)
    ]
    assert found == ["passed", "failed"]
