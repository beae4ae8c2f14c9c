"""Checkpointed blocks of a compiled model give the right gradients, and save memory.

https://docs.pytorch.org/docs/stable/checkpoint.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation

MIB = 2**20
#: A peak of more than this many times the slack is large: checkpoints must lower it.
LARGE = 16


def rule(observation: Observation, budget: Budget) -> Finding:
    """Gradients equal those without checkpoints, and a step needs no more memory than without them.

    Forward keeps less for backward, wherever eager's checkpoints save something. The peak is lower,
    too: one of a few times the slack may be higher by the slack, as the allocator decides it.
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
    if "checkpointed_held_bytes" in figures:
        held = _held(figures)
        if _saves_in_eager(figures) and not _saves(figures, most):
            return Finding("failed", f"{held}, less than {most:g}× wanted; {text}")
        text = f"{held}; {text}"
    slack = budget.memory_slack_bytes
    if plain > LARGE * slack:
        if peak >= most * plain:
            return Finding("failed", f"{text}, less than {most:g}× wanted")
    elif peak > most * plain + slack:
        more = f"at most {most:g}× allowed, and {slack / MIB:.0f} MiB more"
        return Finding("failed", f"{text}, {more}")
    return replace(finding, summary=f"{finding.summary}; {text}")


def _held(figures: Mapping[str, float]) -> str:
    kept, plain = figures["checkpointed_held_bytes"] / MIB, figures["plain_held_bytes"] / MIB
    return f"forward keeps {kept:.2f} MiB for backward, without checkpoints {plain:.2f} MiB"


def _saves(figures: Mapping[str, float], most: float) -> bool:
    return figures["checkpointed_held_bytes"] < most * figures["plain_held_bytes"]


def _saves_in_eager(figures: Mapping[str, float]) -> bool:
    return figures["eager_checkpointed_held_bytes"] < figures["eager_plain_held_bytes"]


@pytest.mark.aspect("activation_checkpointing")
def test_checkpointed_blocks_have_right_gradients_and_need_no_more_memory(judge: Judge) -> None:
    judge(rule)
