"""Compiled code changes exactly the state that eager changes: inputs, buffers, attributes, results.

The suite catches a lost running statistic, an overwritten input, a first result that a later call
changes, and other random numbers. In *train*, an optimizer steps the parameters between the calls,
and the suite also compares how far they moved.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_faq.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.tensors import examine
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """All state after each call is as eager leaves it."""
    seen = examine(observation, "state")
    if seen.finding is not None:
        return seen.finding
    return Finding(
        "passed",
        f"{seen.tensors} inputs, buffers and parameters, {seen.floating} changed, "
        f"the same on both sides{seen.by_type_only}",
    )


@pytest.mark.aspect("side_effects")
def test_state_changes_as_in_eager(judge: Judge) -> None:
    judge(rule)
