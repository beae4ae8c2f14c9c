"""A compiled call takes no longer than under the PyTorch in use.

Pairs of processes, one under each PyTorch, are timed alternately. One pair screens a case and fails
nothing. A case that it shows slower gets fresh pairs after the last case, and those decide, by the
median call and by the 95th percentile. Eager's change explains a slowdown, but does not
excuse it. See ``docs/upgrade.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.upgrade.cost_change import CostChange, finding


def rule(changes: Sequence[CostChange]) -> Finding:
    """Slower calls fail once fresh pairs have shown them; a screening pair fails nothing."""
    return finding(changes, "slowdown")


@pytest.mark.aspect("slowdown")
def test_compiled_calls_are_no_slower_than_before(
    judge: Judge, cost_changes: Sequence[CostChange]
) -> None:
    judge(lambda observation, budget: rule(cost_changes))
