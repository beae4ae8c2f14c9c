"""Compiled code changes what eager changes and nothing else: inputs, buffers, parameters.

A running statistic that is lost, or an input overwritten, shows here.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_faq.html
"""

from __future__ import annotations

import pytest

from fixtures.budgets import Budget
from fixtures.judging import Finding, Judge
from fixtures.observation import Observation
from suites.bounds import examine, shorten


def rule(observation: Observation, budget: Budget) -> Finding:
    """Inputs, buffers and parameters after each call are as eager leaves them."""
    seen = examine(observation, "state")
    if seen.complaints:
        return Finding("failed", seen.complaints[0], shorten(seen.complaints))
    return Finding("passed", f"{seen.tensors} inputs and buffers, {seen.floating} changed, alike")


@pytest.mark.aspect("side_effects", wants=("capture", "vary"))
def test_state_changes_as_in_eager(judge: Judge) -> None:
    judge(rule)
