"""Checkpointed blocks of a compiled model give the right gradients, and save memory.

https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.judge import Finding, Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation

MIB = 2**20
#: A peak of more than this many times the slack is large: checkpoints must lower it.
LARGE = 16


def rule(observation: Observation, budget: Budget) -> Finding:
    """Gradients are those without checkpoints, and the peak is lower than without.

    A peak of a few times the slack may be higher by the slack: what the allocator adds decides it.
    """
    finding = judge_steps(observation, "activation_checkpointing")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["activation_checkpointing"].figures
    if "checkpointed_peak_bytes" not in figures:
        return finding
    plain, peak = figures["plain_peak_bytes"], figures["checkpointed_peak_bytes"]
    most = budget.max_checkpointed_memory_ratio
    text = f"peak {peak / MIB:.2f} MiB, without checkpoints {plain / MIB:.2f} MiB"
    slack = budget.memory_slack_bytes
    if plain > LARGE * slack:
        if peak >= most * plain:
            return Finding("failed", f"{text}, less than {most:g}× wanted")
    elif peak > most * plain + slack:
        more = f"at most {most:g}× allowed, and {slack / MIB:.0f} MiB more"
        return Finding("failed", f"{text}, {more}")
    return replace(finding, summary=f"{finding.summary}; {text}")


@pytest.mark.aspect("activation_checkpointing")
def test_checkpointed_blocks_have_right_gradients_and_need_no_more_memory(judge: Judge) -> None:
    judge(rule)
