"""A cost that a budgets file accepts is an expected failure, and does not stop an upgrade."""

import dataclasses
import math

import pytest

from compilegate.judging.budgets import Machine
from compilegate.judging.judge import judge
from compilegate.judging.rules import rules
from compilegate.records.case import Case
from compilegate.records.statistics import Shift
from compilegate.runs.archive import CaseRecord
from compilegate.suites import test_slowdown, test_upgrade
from compilegate.upgrade.case_comparison import compare_case
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.cost_change import CostChange
from compilegate.upgrade.decision import decide
from tests.unit.making import (
    CASE_ID,
    make_compile_time,
    make_failed_observation,
    make_header,
    make_memory,
    make_observation,
    make_verdict,
)

THRESHOLDS = """
[[budget]]
model = "tiny"
max_memory_ratio = 1.1
max_compile_s = 60
"""
ACCEPTED = """
[[expected_failure]]
model = "tiny"
aspect = "{aspect}"
reason = "we accept that"
"""
FINE = make_observation(
    cold=True, wants=("capture", "memory"), memory=make_memory(), compile_time=make_compile_time()
)
COSTLY = {
    "memory": dataclasses.replace(FINE, memory=make_memory(compiled=300 * 2**20)),
    "compile_time": dataclasses.replace(FINE, compile_time=make_compile_time(90.0)),
}


def slower(kind="worse", *, judged=True):
    shift = Shift(mean=math.log(0.8), low=math.log(0.78), high=math.log(0.82), p_below=0, count=5)
    return [CostChange(CASE_ID, "calls", kind, judged, shift, shift, (1e6, 1.25e6), 0.03, 5)]


def budget_of(load_budgets, *texts):
    return load_budgets(THRESHOLDS, *texts).budget(Case.parse(CASE_ID), Machine(), "2.15.0")


def answer(now, before=FINE, costs=(), **aspects):
    """The decision on one case, given the verdicts of the candidate's run."""
    verdicts = [make_verdict(outcome, aspect=aspect) for aspect, outcome in aspects.items()]
    passed = [make_verdict(aspect=aspect) for aspect in aspects if aspect != "slowdown"]
    compared = compare_case(
        CASE_ID,
        CaseRecord.of(before, passed),
        CaseRecord.of(now, verdicts),
        costs=costs,
    )
    finding = test_upgrade.rule(compared)
    header = make_header()
    return decide(Comparison(header, header, (compared,))).answer, finding.outcome


@pytest.mark.parametrize("accepted", [True, False])
def test_an_accepted_slowdown_is_expected_and_stops_no_upgrade(load_budgets, accepted):
    texts = [ACCEPTED.format(aspect="slowdown")] if accepted else []
    budget = budget_of(load_budgets, *texts)
    outcome = judge(
        FINE, budget, "slowdown", lambda o, b: test_slowdown.rule(slower())
    ).verdict.outcome
    assert outcome == ("expected_failure" if accepted else "failed")
    expected = ("safe", "passed") if accepted else ("do not upgrade", "failed")
    assert answer(FINE, costs=slower(), forward="passed", slowdown=outcome) == expected


@pytest.mark.parametrize("aspect", COSTLY)
@pytest.mark.parametrize("accepted", [True, False])
def test_an_accepted_cost_is_expected_and_stops_no_upgrade(load_budgets, aspect, accepted):
    texts = [ACCEPTED.format(aspect=aspect)] if accepted else []
    budget = budget_of(load_budgets, *texts)
    rule = next(rule for entry, rule in rules() if entry.name == aspect)
    outcome = judge(COSTLY[aspect], budget, aspect, rule).verdict.outcome
    assert outcome == ("expected_failure" if accepted else "failed")
    expected = ("safe", "passed") if accepted else ("do not upgrade", "failed")
    assert answer(COSTLY[aspect], forward="passed", **{aspect: outcome}) == expected


def test_an_accepted_cost_hides_no_other_regression(load_budgets):
    accepted = {"slowdown": "expected_failure", "forward": "failed"}
    assert answer(FINE, costs=slower(), **accepted) == ("do not upgrade", "failed")


def test_an_entry_for_another_aspect_accepts_no_slowdown(load_budgets):
    budget = budget_of(load_budgets, ACCEPTED.format(aspect="speedup"))
    verdict = judge(FINE, budget, "slowdown", lambda o, b: test_slowdown.rule(slower())).verdict
    assert verdict.outcome == "failed"


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (slower("unchanged", judged=False), "passed"),
        (slower("unchanged"), "failed"),
        (slower("unsettled", judged=False), "inconclusive"),
        ([CostChange(CASE_ID, "calls", "not measured", note="crashed")], "skipped"),
    ],
)
def test_an_entry_is_outdated_only_if_fresh_pairs_show_no_slowdown(load_budgets, change, outcome):
    budget = budget_of(load_budgets, ACCEPTED.format(aspect="slowdown"))
    found = judge(FINE, budget, "slowdown", lambda o, b: test_slowdown.rule(change)).verdict
    assert found.outcome == outcome


# Unknown outcomes.


@pytest.mark.parametrize("kind", ["worse", "unsettled"])
def test_a_growth_that_is_not_settled_is_inconclusive(kind):
    assert test_slowdown.rule(slower(kind, judged=False)).outcome == "inconclusive"


def test_a_run_in_which_nothing_was_judged_decides_nothing():
    assert answer(FINE, forward="skipped", memory="skipped")[0] == "cannot say"


def test_a_library_that_is_missing_for_every_case_decides_nothing():
    missing = make_failed_observation("unavailable", stage="build", message="no timm")
    for before, now in ((FINE, missing), (missing, FINE), (missing, missing)):
        assert answer(now, before, forward="passed")[0] == "cannot say"
