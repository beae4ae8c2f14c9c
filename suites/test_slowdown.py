"""Compiled code is no slower than under the PyTorch in use, as pairs of processes tell.

One pair screens and fails nothing. What it shows slower gets fresh pairs after the last case, and
all of these are judged together; an eager that moved is told apart. See docs/upgrade.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compilegate.judging.judge import Finding, Judge
from compilegate.records.case import Case
from compilegate.records.verdict import Outcome
from compilegate.upgrade.paired_speed import Kind, SpeedChange

_OUTCOMES: dict[Kind, Outcome] = {
    "unsettled": "inconclusive",
    "not measured": "skipped",
}


def rule(seen: SpeedChange) -> Finding:
    """Slower code fails once fresh pairs have shown it; a screening pair never does."""
    outcome = "failed" if seen.fails else _OUTCOMES.get(seen.kind, "passed")
    return Finding(outcome, seen.summary)


@pytest.mark.aspect("slowdown")
def test_compiled_is_no_slower_than_before(
    judge: Judge, case: Case, speeds: Mapping[str, SpeedChange]
) -> None:
    unpaired = SpeedChange(case.id, "not measured", note="no pair was timed")
    judge(lambda observation, budget: rule(speeds.get(case.id, unpaired)))
