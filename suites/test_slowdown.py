"""Compiled code is no slower than under the PyTorch in use.

Pairs of processes, one under each PyTorch, are timed in turns. One pair screens a case and fails
nothing. A case that it shows slower gets fresh pairs after the last case, and those decide. If only
eager's speed changed, the case passes. See ``docs/upgrade.md``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compilegate.judging.judge import Finding, Judge
from compilegate.records.case import Case
from compilegate.records.verdict import Outcome
from compilegate.upgrade.speed_change import Kind, SpeedChange

#: A kind that is not here is inconclusive.
_OUTCOMES: dict[Kind, Outcome] = {
    "faster": "passed",
    "eager moved": "passed",
    "both moved": "passed",
    "unchanged": "passed",
    "not measured": "skipped",
}


def rule(change: SpeedChange) -> Finding:
    """Slower code fails once fresh pairs have shown it; a screening pair never fails a case."""
    outcome = "failed" if change.fails else _OUTCOMES.get(change.kind, "inconclusive")
    return Finding(outcome, change.summary, indicative=not change.judged)


@pytest.mark.aspect("slowdown")
def test_compiled_is_no_slower_than_before(
    judge: Judge, case: Case, speed_changes: Mapping[str, SpeedChange]
) -> None:
    unpaired = SpeedChange(case.id, "not measured", note="no pair was timed")
    judge(lambda observation, budget: rule(speed_changes.get(case.id, unpaired)))
