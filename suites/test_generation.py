"""A compiled decoder generates what eager generates, and compiles no more than its cache needs.

The logits of each token and the contents of the cache are compared over texts of 32 tokens, one of
which is padded on the left. How many tokens a second compiled code generates is shown next to
eager's, and judged where a budget asks for it.
https://huggingface.co/docs/transformers/llm_optims#static-kv-cache-and-torchcompile
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practice_figures import contention, judge_ratio, measured
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each step is right and compiles no more than it needs, and the speed is within budget."""
    finding = judge_steps(observation, "generation")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["generation"].figures
    if budget.min_generation_speedup is not None:
        speed = judge_ratio(
            measured(figures, "generation"),
            budget.min_generation_speedup,
            busy_share=figures.get("generation_busy_share", 0.0),
            what="compiled code generates {} as many tokens a second as eager",
            key="min_generation_speedup",
        )
        if speed.outcome != "passed":
            return speed
    return replace(finding, summary=f"{finding.summary}{_described(figures)}")


def _described(figures: Mapping[str, float]) -> str:
    if "generation_ratio" not in figures:
        return ""
    return (
        "; {eager_tokens_per_s:.0f} tokens/s in eager, {compiled_tokens_per_s:.0f} compiled: "
        "{generation_ratio:.2f}× [{generation_low_ratio:.2f}, {generation_high_ratio:.2f}]"
    ).format(**figures) + contention(figures.get("generation_busy_share", 0.0))


@pytest.mark.aspect("generation")
def test_a_decoder_generates_what_eager_generates(judge: Judge) -> None:
    judge(rule)
