"""Compiled code needs no more memory than under the PyTorch in use.

The suite compares the peak, the memory that a GPU's allocator reserves, and the memory that stays
allocated after the first call. Each process has the same figures, so a second observation confirms
a growth without statistics. See ``docs/upgrade.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.upgrade.cost_change import CostChange, finding


def rule(changes: Sequence[CostChange]) -> Finding:
    """Growth fails once a second pair of processes has shown it."""
    return finding(changes, "memory_growth")


@pytest.mark.aspect("memory_growth")
def test_memory_is_no_higher_than_before(judge: Judge, cost_changes: Sequence[CostChange]) -> None:
    judge(lambda observation, budget: rule(cost_changes))
