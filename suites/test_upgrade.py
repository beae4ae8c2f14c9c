"""No case is worse than it was under the PyTorch in use.

pytest collects these tests with ``--baseline-run RUN`` or ``--baseline-python PATH``. They judge
changes: a failure that existed before does not stop an upgrade, and a new graph break does, even
if budgets allow it. ``docs/reports.md`` explains the classes.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import judge_change as judge_finding
from compilegate.judging.rules import verdicts
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.verdict import Outcome, Verdict
from compilegate.runs.archive import CaseRecord
from compilegate.session.plan import Plan
from compilegate.suites.test_compile_work import rule as work_rule
from compilegate.suites.test_eager import rule as eager_rule
from compilegate.upgrade.case_comparison import CaseComparison, Class, compare_case
from compilegate.upgrade.cost_change import CostChange, finding
from compilegate.upgrade.costs import COUNTED
from compilegate.upgrade.proposals import proposals
from compilegate.upgrade.verdict_changes import EAGER
from compilegate.upgrade.work_growth import COMPILE_WORK

_OUTCOMES: dict[Class, Outcome] = {
    "broken": "failed",
    "regressed": "failed",
    "eager regressed": "failed",
    "gone": "failed",
    "inconclusive": "inconclusive",
    "not comparable": "skipped",
    "new": "skipped",
    "fixed": "passed",
    "improved": "passed",
    "accepted": "passed",
    "unchanged": "passed",
}


def rule(comparison: CaseComparison) -> Finding:
    """The case is in no class that counts against the candidate."""
    outcome = _OUTCOMES[comparison.kind]
    if outcome == "skipped" and comparison.doubt:
        outcome = "inconclusive"
    lines = []
    for change in comparison.changes:
        if change.aspect and (change.effect != "better" or comparison.kind != "broken"):
            if change is not comparison.decisive:  # the summary has it
                lines.append(f"{change.effect}: {change.aspect}: {change.text}")
            lines += [f"  {line}" for line in change.details]
    lines += [f"budget: {line}" for line in proposals(comparison)]
    reason = f": {comparison.reason}" if comparison.reason else ""
    summary = f"{comparison.kind}{reason}"
    worse = [
        change for change in comparison.changes if change.effect in ("broken", "worse", "eager")
    ]
    complaints = tuple(f"{change.aspect}: {change.text}" for change in worse)
    return Finding(outcome, summary, tuple(lines), complaints=complaints)


@pytest.mark.aspect("upgrade")
def test_nothing_is_worse_than_before(
    plan: Plan,
    observation: Observation,
    budget: Budget,
    *,
    before: CaseRecord,
    cost_changes: Sequence[CostChange],
    judge_change: Callable[[CaseComparison, Finding], None],
) -> None:
    case = Case.parse(observation.case)
    assert plan.before is not None
    given = [*verdicts(observation, budget), *_verdicts_on_costs(cost_changes, budget)]
    given += _verdict_on_eager(before, observation, budget)
    given += _verdict_on_work(before, observation, budget)
    comparison = compare_case(
        case.id,
        before,
        CaseRecord.of(observation, given),
        times_compare=plan.before.times_compare(case, plan.environment),
        paired=plan.before.is_paired,
        costs=cost_changes,
        work_growth=budget.max_compile_calls_growth,
    )
    judge_change(comparison, rule(comparison))


def _verdicts_on_costs(changes: Sequence[CostChange], budget: Budget) -> Iterator[Verdict]:
    """Judge the pairs of processes, and accept any growth that the budget accepts."""
    for aspect in COUNTED if changes else ():
        found = finding(changes, aspect)
        yield judge_finding(changes[0].case, budget, aspect, found).verdict


def _verdict_on_eager(
    before: CaseRecord, observation: Observation, budget: Budget
) -> Iterator[Verdict]:
    """Judge eager, and accept any change that the budget accepts."""
    finding = eager_rule(before, observation)
    if finding.outcome == "failed":
        yield judge_finding(observation.case, budget, EAGER, finding).verdict


def _verdict_on_work(
    before: CaseRecord, observation: Observation, budget: Budget
) -> Iterator[Verdict]:
    """Judge compile work, so that growth that the budget accepts is accepted here."""
    if observation.compile_work is not None:
        earlier = before.observation.compile_work if before.observation is not None else None
        finding = work_rule(observation, budget, earlier)
        yield judge_finding(observation.case, budget, COMPILE_WORK, finding).verdict


@pytest.mark.aspect("upgrade", wants=(), gone=True)
def test_no_case_vanished(
    case: Case, plan: Plan, judge_change: Callable[[CaseComparison, Finding], None]
) -> None:
    assert plan.before is not None
    comparison = plan.before.vanished(case)
    judge_change(comparison, rule(comparison))
