"""Nothing is worse than it was under the PyTorch in use: each case against the other run.

Collected with ``--baseline-run RUN`` or ``--baseline-python PATH``. What changed is judged, not
what fails: a failure that was there before is no reason to stay, and a new graph break is one
though budgets allow it.
What each class means is in ``docs/reports.md``.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compilegate.judging.aspects import Budget
from compilegate.judging.judge import Finding
from compilegate.judging.rules import verdicts
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.verdict import Outcome
from compilegate.runs.archive import Seen
from compilegate.session.plan import Gate
from compilegate.upgrade.comparison import CaseComparison, Class, Slowdown, compare_case
from compilegate.upgrade.proposals import proposals

_OUTCOMES: dict[Class, Outcome] = {
    "broken": "failed",
    "regressed": "failed",
    "gone": "failed",
    "inconclusive": "inconclusive",
    "not comparable": "skipped",
    "new": "skipped",
    "fixed": "passed",
    "improved": "passed",
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
            lines.append(f"{change.effect}: {change.aspect}: {change.text}")
            lines += [f"  {line}" for line in change.details]
    lines += [f"budget: {line}" for line in proposals(comparison)]
    reason = f": {comparison.reason}" if comparison.reason else ""
    summary = f"{comparison.kind}{reason}"
    # The first line is the summary, unless it is about something that did not decide the class.
    details = [line for line in lines if line != summary]
    return Finding(outcome, summary, tuple(details))


@pytest.mark.aspect("upgrade")
def test_nothing_is_worse_than_before(
    gate: Gate,
    observation: Observation,
    budget: Budget,
    slowdown: Slowdown | None,
    judge_change: Callable[[CaseComparison, Finding], None],
) -> None:
    case = Case.parse(observation.case)
    assert gate.before is not None
    comparison = compare_case(
        case.id,
        seen_before(gate, case),
        Seen.of(observation, verdicts(observation, budget)),
        times_compare=gate.before.times_compare(case, gate.environment),
        slowdown=slowdown,
    )
    judge_change(comparison, rule(comparison))


def seen_before(gate: Gate, case: Case) -> Seen:
    """What is known of a case under the PyTorch in use; of pairs, all suites judge that side."""
    theirs = gate.paired.observed.get(case.id) if gate.paired else None
    if theirs is not None:
        return Seen.of(theirs, verdicts(theirs, gate.budget_before(case)))
    assert gate.before is not None
    return gate.before.seen(case)


@pytest.mark.aspect("upgrade", wants=(), gone=True)
def test_no_case_vanished(
    case: Case, gate: Gate, judge_change: Callable[[CaseComparison, Finding], None]
) -> None:
    assert gate.before is not None
    comparison = gate.before.vanished(case)
    judge_change(comparison, rule(comparison))
