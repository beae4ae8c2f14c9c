"""A compiled call needs no more energy than under the PyTorch in use, where a GPU has a meter.

Fresh pairs judge a case whose first pair needed more. See ``docs/upgrade.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.upgrade.cost_change import CostChange, finding


def rule(changes: Sequence[CostChange]) -> Finding:
    """Growth fails once fresh pairs have shown it."""
    return finding(changes, "energy_growth")


@pytest.mark.aspect("energy_growth")
def test_energy_is_no_higher_than_before(judge: Judge, cost_changes: Sequence[CostChange]) -> None:
    judge(lambda observation, budget: rule(cost_changes))
