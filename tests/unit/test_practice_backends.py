"""The practice ``backends``: how a mode is judged against another."""

import pytest

from compilegate.judging.budget import Budget
from compilegate.records.practice import Practice, Step, figures_of, ratios_in
from compilegate.records.statistics import Interval
from compilegate.suites.test_backends import rule
from tests.unit.making import make_checked, make_error, make_observation
from tests.unit.rules.common import assert_proposal_helps

STEP = Step(name='mode="reduce-overhead"', outputs=make_checked(make_error("output")))
SEEN = Interval(1.5, 1.4, 1.6)
FIGURES = {**figures_of("reduce_overhead", SEEN), "reduce_overhead_busy_share": 0.0}


def practised(figures=FIGURES, **changed):
    practice = Practice(steps=(STEP,), graphs=1, figures=figures | changed)
    return make_observation(practices={"backends": practice}, wants=("capture", "backends"))


def test_a_ratio_is_read_from_figures_as_it_was_written():
    assert dict(ratios_in({**FIGURES, "default_call_ms": 1.0})) == {"reduce_overhead": SEEN}


def test_a_mode_is_shown_and_not_judged_without_a_budget():
    finding = rule(practised(reduce_overhead_high_ratio=0.2), Budget())
    assert finding.outcome == "passed"
    assert "the mode reduce_overhead has 1.50× [1.40, 0.20] the throughput" in finding.summary


@pytest.mark.parametrize(
    ("wanted", "changed", "outcome"),
    [
        (1.4, {}, "passed"),
        (1.5, {}, "inconclusive"),
        (1.7, {}, "failed"),
        (1.7, {"reduce_overhead_busy_share": 0.5}, "inconclusive"),
    ],
)
def test_a_budget_judges_the_mode(wanted, changed, outcome):
    budget = Budget(min_reduce_overhead_throughput=wanted)
    assert rule(practised(**changed), budget).outcome == outcome


def test_a_mode_that_was_not_timed_is_inconclusive():
    finding = rule(practised({}), Budget(min_reduce_overhead_throughput=1.1))
    assert finding.outcome == "inconclusive"
    assert finding.summary.endswith("it was not measured")


def test_the_proposed_budget_passes():
    assert_proposal_helps(rule, practised(), Budget(min_reduce_overhead_throughput=4.0))
