"""Compiled outputs are eager's: structure, shape, dtype, stride, aliasing, and every value.

Values are judged against an fp64 run, at every call and every size.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html
"""

from __future__ import annotations

import pytest

from fixtures.budgets import Budget
from fixtures.judging import Finding, Judge
from fixtures.observation import Observation
from suites.bounds import examine, shorten


def rule(observation: Observation, budget: Budget) -> Finding:
    """No output may differ beyond eager's own noise."""
    seen = examine(observation, "outputs")
    if seen.complaints:
        return Finding("failed", seen.complaints[0], shorten(seen.complaints))
    if seen.tensors == 0:
        return Finding("failed", "the model returned no tensor: there is nothing to compare")
    if seen.floating and seen.blind == seen.floating:
        return Finding("inconclusive", "blind: outputs are zero, or eager itself is mere noise")
    blind = f", {seen.blind} blind" if seen.blind else ""
    calls = len(observation.calls)
    return Finding(
        "passed", f"{seen.tensors} outputs over {calls} calls{blind}, error {seen.worst:.2g}"
    )


@pytest.mark.aspect("forward", wants=("capture", "vary"))
def test_outputs_match_eager(judge: Judge) -> None:
    judge(rule)
