"""Nothing is worse than it was under the PyTorch in use: each case against the other run.

Collected with ``--baseline-run RUN`` or ``--baseline-python PATH``. What changed is judged, not
what fails: a failure that was there before is no reason to stay, and a new graph break is one
though budgets allow it.
What each class means is in ``docs/reports.md``.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compilegate.judging.aspects import Aspect
from compilegate.judging.budgets import Budget
from compilegate.judging.judge import Finding, Rule, judge
from compilegate.records.case import Case
from compilegate.records.observation import WANTS, Observation
from compilegate.records.verdict import Outcome, Verdict
from compilegate.reports.rows import proposals
from compilegate.runs.archive import Seen
from compilegate.session.plan import Gate
from compilegate.suites import test_compile_time as compile_time
from compilegate.suites import test_cuda_graphs as cuda_graphs
from compilegate.suites import test_energy as energy
from compilegate.suites import test_forward as forward
from compilegate.suites import test_gradients as gradients
from compilegate.suites import test_graph_breaks as graph_breaks
from compilegate.suites import test_memory as memory
from compilegate.suites import test_randomness as randomness
from compilegate.suites import test_recompiles as recompiles
from compilegate.suites import test_side_effects as side_effects
from compilegate.suites import test_speedup as speedup
from compilegate.upgrade.comparison import CaseComparison, Class, Slowdown, compare_case

#: The suites whose verdicts are compared.
_SUITES = (
    forward,
    gradients,
    side_effects,
    randomness,
    graph_breaks,
    recompiles,
    cuda_graphs,
    speedup,
    compile_time,
    memory,
    energy,
)
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


def aspects() -> Iterator[tuple[Aspect, Rule]]:
    """Every aspect that is compared, and its rule."""
    for suite in _SUITES:
        for name, test in vars(suite).items():
            for mark in getattr(test, "pytestmark", ()) if name.startswith("test_") else ():
                if mark.name == "aspect":
                    yield Aspect.of_mark(mark), suite.rule


def verdicts(observation: Observation, budget: Budget) -> Iterator[Verdict]:
    """The verdicts of all suites on a case."""
    case = Case.parse(observation.case)
    for aspect, rule in aspects():
        if aspect.applies(case) and (observation.cold or not aspect.cold):
            yield judge(observation, budget, aspect.name, rule, aspect.wants).verdict


def rule(
    observation: Observation,
    budget: Budget,
    before: Seen,
    *,
    times_compare: bool,
    slowdown: Slowdown | None = None,
) -> Finding:
    """The case is in no class that counts against the candidate."""
    now = Seen.of(observation, verdicts(observation, budget))
    return finding(
        compare_case(observation.case, before, now, times_compare=times_compare, slowdown=slowdown)
    )


def finding(comparison: CaseComparison) -> Finding:
    """What a comparison comes to as a finding."""
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
    return Finding(outcome, summary, tuple(details), comparison=comparison)


@pytest.mark.aspect("upgrade", wants=WANTS, baseline=True)
def test_nothing_is_worse_than_before(
    gate: Gate,
    observation: Observation,
    budget: Budget,
    slowdown: Slowdown | None,
    judge_change: Callable[[Finding], None],
) -> None:
    case = Case.parse(observation.case)
    assert gate.before is not None
    times_compare = gate.before.times_compare(case, gate.environment)
    before = seen_before(gate, case)
    judge_change(rule(observation, budget, before, times_compare=times_compare, slowdown=slowdown))


def seen_before(gate: Gate, case: Case) -> Seen:
    """What is held of a case under the PyTorch in use; pairs are judged by all suites here."""
    theirs = gate.paired.observed.get(case.id) if gate.paired else None
    if theirs is not None:
        return Seen.of(theirs, verdicts(theirs, gate.budget_before(case)))
    assert gate.before is not None
    return gate.before.seen(case)


@pytest.mark.aspect("upgrade", wants=(), gone=True)
def test_no_case_vanished(case: Case, gate: Gate, judge_change: Callable[[Finding], None]) -> None:
    assert gate.before is not None
    judge_change(finding(gate.before.vanished(case)))
