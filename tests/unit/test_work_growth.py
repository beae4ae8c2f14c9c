"""Compile work from version to version: what grew, by how much, and which functions show it."""

import dataclasses

import pytest

from compilegate.judging.budgets import Machine
from compilegate.judging.judge import judge
from compilegate.records.case import Case
from compilegate.runs.archive import CaseRecord
from compilegate.suites import test_compile_work, test_upgrade
from compilegate.upgrade.case_comparison import compare_case
from compilegate.upgrade.work_growth import growth, incomparable
from tests.unit.making import CASE_ID, make_observation, make_verdict, make_work

FUSE = "torch._inductor.scheduler.Scheduler.fuse_nodes"
BEFORE = make_work(functions={FUSE: 10_000, "sympy.core.add.Add.flatten": 9_000})
MORE = dataclasses.replace(
    BEFORE,
    inductor=BEFORE.inductor + 41_200,
    dynamo=BEFORE.dynamo + 800,
    functions={FUSE: 51_200, "sympy.core.add.Add.flatten": 9_000},
)
ACCEPTED = """
[[expected_failure]]
model = "tiny"
aspect = "compile_work"
reason = "fusion is worth it"
"""


def counted(work):
    return make_observation(wants=("capture", "vary", "compile_work"), compile_work=work)


def compared(before, now, outcome="skipped", **options):
    forward, work = make_verdict(), make_verdict(outcome, aspect="compile_work")
    return compare_case(
        CASE_ID,
        CaseRecord.of(counted(before), [forward]),
        CaseRecord.of(counted(now), [forward, work]),
        **options,
    )


def scaled(factor):
    return dataclasses.replace(BEFORE, rest=BEFORE.rest + round((factor - 1) * BEFORE.total))


def test_growth_names_the_parts_and_the_functions_that_grew():
    assert growth(BEFORE, MORE).text == (
        "compile work +7.0% (600,000 → 642,000 Python calls): Inductor +20.6%, Dynamo +0.8%; "
        f"most: {FUSE} +41,200"
    )


def test_a_function_that_only_one_record_keeps_grew_by_at_least_the_difference_to_its_last():
    functions = {**BEFORE.functions, "torch._dynamo.guards.check": 50_000}
    text = growth(BEFORE, dataclasses.replace(scaled(1.1), functions=functions)).text
    assert text.endswith("most: torch._dynamo.guards.check at least +41,000")
    text = growth(dataclasses.replace(scaled(1.1), functions=functions), BEFORE).text
    assert text.endswith("most: torch._dynamo.guards.check at least -41,000")


@pytest.mark.parametrize(
    ("factor", "kind"), [(1.0, "unchanged"), (1.019, "unchanged"), (0.981, "unchanged")]
)
def test_two_per_cent_are_no_change(factor, kind):
    assert compared(BEFORE, scaled(factor)).kind == kind


def test_more_than_two_per_cent_is_worse_and_less_is_better():
    worse, better = compared(BEFORE, scaled(1.021)), compared(BEFORE, scaled(0.979))
    assert (worse.kind, better.kind) == ("regressed", "improved")
    assert worse.reason.startswith("compile_work: compile work +2.1%")
    assert test_upgrade.rule(worse).outcome == "failed"


def test_it_does_not_depend_on_the_machine():
    assert compared(BEFORE, MORE, times_compare=False).kind == "regressed"


def test_a_budget_can_allow_more_growth_or_less():
    assert compared(BEFORE, MORE, work_growth=0.08).kind == "unchanged"
    assert compared(BEFORE, scaled(1.01), work_growth=0.005).kind == "regressed"


def test_growth_that_a_budget_accepts_is_noted_and_stops_no_upgrade(load_budgets):
    budget = load_budgets(ACCEPTED).budget(Case.parse(CASE_ID), Machine(), "2.15.0")
    verdict = judge(
        counted(MORE),
        budget,
        "compile_work",
        lambda observation, budget: test_compile_work.rule(observation, budget, BEFORE),
    ).verdict
    assert verdict.outcome == "expected_failure"
    found = compared(BEFORE, MORE, verdict.outcome)
    assert (found.kind, found.has_accepted_cost) == ("unchanged", True)
    assert found.changes[0].text.startswith("accepted: compile work +7.0%")


def test_another_python_is_not_compared():
    other = dataclasses.replace(MORE, python="3.12")
    assert "depend on Python: 3.11 → 3.12" in incomparable(BEFORE, other)
    found = compared(BEFORE, other)
    assert (found.kind, [change.effect for change in found.changes]) == ("unchanged", ["note"])


@pytest.mark.parametrize("sides", [(None, BEFORE), (BEFORE, None), (None, None)])
def test_what_one_run_did_not_count_is_no_change(sides):
    assert not compared(*sides).changes
