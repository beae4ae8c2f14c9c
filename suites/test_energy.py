"""A compiled call uses no more energy than its budget allows, relative to an eager call.

NVML reads the GPU's own counter.
https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """Joules per call are within their ratio to eager's plus the slack."""
    seen = observation.energy
    assert seen is not None
    if seen.unavailable or not seen.eager_j:
        why = seen.unavailable or "the energy counter did not move in eager's calls"
        return Finding("skipped", f"unavailable: {why}")
    ratio = seen.compiled_j / seen.eager_j
    text = f"{seen.compiled_j:.3g} J a call, eager {seen.eager_j:.3g} J ({ratio:.2f}×)"
    if budget.max_energy_ratio is None:
        return Finding("skipped", f"{budget.why_unjudged('max_energy_ratio')}: {text}")
    text += f", at most {budget.max_energy_ratio:g}× allowed"
    over = seen.compiled_j - budget.max_energy_ratio * seen.eager_j
    if over <= budget.energy_slack_j:
        slack = f", within the slack of {budget.energy_slack_j:g} J" if over > 0 else ""
        return Finding("passed", text + slack)
    return Finding("failed", text, proposal={"max_energy_ratio": round(1.1 * ratio, 2)})


@pytest.mark.aspect("energy")
def test_energy_is_within_budget(judge: Judge) -> None:
    judge(rule)
