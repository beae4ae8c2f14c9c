"""The rule of compile work: alone by a budget, and against the PyTorch in use."""

import dataclasses

import pytest

from compilegate.judging.budget import Budget
from compilegate.suites.test_compile_work import rule
from tests.unit.making import make_observation, make_work

WORK = make_work()


def counted(work):
    return make_observation(compile_work=work)


def grown(share):
    return dataclasses.replace(WORK, rest=WORK.rest + round(share * WORK.total))


def test_without_a_budget_or_a_baseline_it_is_shown_only():
    found = rule(counted(WORK), Budget())
    assert found.outcome == "skipped"
    assert found.summary == "not judged, no threshold: 600,000 Python calls while compiling"


@pytest.mark.parametrize(("most", "outcome"), [(600_000, "passed"), (599_999, "failed")])
def test_a_budget_limits_the_calls(most, outcome):
    found = rule(counted(WORK), Budget(max_compile_calls=most))
    assert found.outcome == outcome
    assert f"at most {most:,} allowed" in found.summary
    if outcome == "failed":
        again = rule(counted(WORK), Budget(**found.proposal))
        assert again.outcome == "passed"


@pytest.mark.parametrize(("share", "outcome"), [(0.019, "passed"), (0.021, "failed")])
def test_growth_since_the_baseline_is_limited(share, outcome):
    found = rule(counted(grown(share)), Budget(), WORK)
    assert found.outcome == outcome
    assert found.summary.endswith("at most +2.0% allowed")


def test_a_case_may_be_allowed_more_growth():
    allowing = Budget(max_compile_calls_growth=0.1)
    assert rule(counted(grown(0.09)), allowing, WORK).outcome == "passed"
    assert rule(counted(grown(0.11)), allowing, WORK).outcome == "failed"


def test_less_work_passes():
    assert rule(counted(grown(-0.3)), Budget(), WORK).outcome == "passed"


def test_another_python_is_skipped_with_the_reason():
    other = dataclasses.replace(grown(1.0), python="3.12")
    found = rule(counted(other), Budget(), WORK)
    assert found.outcome == "skipped"
    assert "3.11 → 3.12" in found.summary
    limited = Budget(max_compile_calls=700_000)
    assert rule(counted(other), limited, WORK).outcome == "failed"


def test_a_pytorch_that_compiled_nothing_is_no_measure_of_compile_work():
    nothing = make_work(aot=0, inductor=0, codegen=0, dynamo=3_000, rest=700)
    found = rule(counted(WORK), Budget(), nothing)
    assert found.outcome == "skipped"
    assert "the PyTorch in use compiled nothing" in found.summary
    captured = dataclasses.replace(nothing, aot=10_000)
    assert rule(counted(WORK), Budget(), captured).outcome == "failed"
    assert rule(counted(nothing), Budget(), WORK).outcome == "passed"


def test_passing_without_a_baseline_contradicts_no_accepted_growth():
    assert rule(counted(WORK), Budget(max_compile_calls=600_000)).indicative
    assert not rule(counted(WORK), Budget(), WORK).indicative
