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
from compilegate.judging.judge import Finding, Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation
from compilegate.records.statistics import BUSY


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each step is right and compiles no more than it needs, and the speed is within budget."""
    finding = judge_steps(observation, "generation")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["generation"].figures
    if budget.min_generation_speedup is not None:
        speed = _speed(figures, budget.min_generation_speedup)
        if speed.outcome != "passed":
            return speed
    return replace(finding, summary=f"{finding.summary}{_described(figures)}")


def _speed(figures: Mapping[str, float], wanted: float) -> Finding:
    if "generation_ratio" not in figures:
        return Finding("inconclusive", "the speed of generation was not measured")
    low, high = figures["generation_low_ratio"], figures["generation_high_ratio"]
    text = (
        f"compiled code generates {figures['generation_ratio']:.2f}× [{low:.2f}, {high:.2f}] as "
        f"many tokens a second as eager, at least {wanted:g}× wanted"
    )
    if low >= wanted:
        return Finding("passed", text)
    if high < wanted and figures["generation_busy_share"] <= BUSY:
        return Finding("failed", text, proposal={"min_generation_speedup": int(90 * low) / 100})
    return Finding("inconclusive", text)


def _described(figures: Mapping[str, float]) -> str:
    if "generation_ratio" not in figures:
        return ""
    return (
        "; {eager_tokens_per_s:.0f} tokens/s in eager, {compiled_tokens_per_s:.0f} compiled: "
        "{generation_ratio:.2f}× [{generation_low_ratio:.2f}, {generation_high_ratio:.2f}]"
    ).format(**figures)


@pytest.mark.aspect("generation")
def test_a_decoder_generates_what_eager_generates(judge: Judge) -> None:
    judge(rule)
