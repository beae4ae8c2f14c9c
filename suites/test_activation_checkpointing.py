"""Checkpointed blocks of a compiled model give the right gradients, and save memory.

Memory is judged on devices that count it. https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.judge import Finding, Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """Gradients are those without checkpoints, and the peak is lower than without."""
    finding = judge_steps(observation, "activation_checkpointing")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["activation_checkpointing"].figures
    plain, checkpointed = (figures.get(f"{name}_peak_bytes") for name in ("plain", "checkpointed"))
    if not plain or checkpointed is None:
        return replace(finding, summary=f"{finding.summary}; memory is not counted here")
    ratio, most = checkpointed / plain, budget.max_checkpointed_memory_ratio
    text = f"the peak is {checkpointed / 2**20:.1f} MiB, {ratio:.2f} of that without checkpoints"
    if ratio > most:
        return Finding("failed", f"{text}, at most {most:g} allowed")
    return replace(finding, summary=f"{finding.summary}; {text}")


@pytest.mark.aspect("activation_checkpointing")
def test_checkpointed_blocks_have_right_gradients_and_save_memory(judge: Judge) -> None:
    judge(rule)
