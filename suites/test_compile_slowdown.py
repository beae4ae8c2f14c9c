"""Compiling takes no longer than under the PyTorch in use: in an empty cache, and in a warm one.

Compile time varies from process to process, so fresh pairs judge a case whose first pair compiled
more slowly. See ``docs/upgrade.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.upgrade.cost_change import CostChange, finding


def rule(changes: Sequence[CostChange]) -> Finding:
    """Slower compilations fail once fresh pairs have shown them."""
    return finding(changes, "compile_slowdown")


@pytest.mark.aspect("compile_slowdown")
def test_compiling_is_no_slower_than_before(
    judge: Judge, cost_changes: Sequence[CostChange]
) -> None:
    judge(lambda observation, budget: rule(cost_changes))
