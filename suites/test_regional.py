"""A repeated block compiles once, and the parts of a model can be compiled in different ways.

Compiling each block must give eager's answers with one compilation for all blocks that are alike.
A disabled block causes graph breaks at its boundary alone. How much sooner regional code is ready,
and how fast it is, are measured against whole-model code in the same process, and judged where a
budget asks for it. https://docs.pytorch.org/tutorials/recipes/regional_compilation.html
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.judge import Finding, Judge
from compilegate.judging.practices import judge_steps, judge_throughput
from compilegate.records.observation import Observation
from compilegate.records.statistics import BUSY


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each step is right and compiles no more than it needs, and the costs are within budget."""
    finding = judge_steps(observation, "regional")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["regional"].figures
    costs = _costs(figures, budget)
    decisive = next((c for c in costs if c.outcome == "failed"), None) or next(
        (c for c in costs if c.outcome == "inconclusive"), None
    )
    if decisive is not None:
        return decisive
    return Finding("passed", f"{finding.summary}{_described(figures)}", finding.details)


def _costs(figures: Mapping[str, float], budget: Budget) -> list[Finding]:
    found = []
    if budget.min_regional_warmup is not None:
        found.append(_warmup(figures, budget.min_regional_warmup))
    if budget.min_regional_throughput is not None:
        found.append(_throughput(figures, budget.min_regional_throughput))
    return found


def warmup_ratio(figures: Mapping[str, float]) -> float | None:
    """Return the whole model's seconds of compiling over those of the blocks; None if not seen."""
    blocks_s, whole_s = figures.get("regional_compile_s"), figures.get("whole_compile_s")
    return whole_s / blocks_s if blocks_s and whole_s is not None else None


def _warmup(figures: Mapping[str, float], wanted: float) -> Finding:
    ratio = warmup_ratio(figures)
    if ratio is None:
        return Finding("inconclusive", "the warm-up of the blocks was not measured")
    text = f"the blocks compile {ratio:.2f}× as fast as the whole model, {wanted:g}× wanted"
    if ratio >= wanted:
        return Finding("passed", text)
    if figures["compile_busy_share"] > BUSY:
        return Finding("inconclusive", f"{text}: others took much of the processor")
    return Finding("failed", text, proposal={"min_regional_warmup": int(90 * ratio) / 100})


def _throughput(figures: Mapping[str, float], wanted: float) -> Finding:
    return judge_throughput(
        figures,
        "throughput",
        wanted,
        busy="call_busy_share",
        what="regional code has {} the throughput of whole-model code",
        key="min_regional_throughput",
    )


def _described(figures: Mapping[str, float]) -> str:
    text = ""
    if "blocks" in figures:
        text += f"; {figures['blocks']:.0f} blocks, {figures['distinct_blocks']:.0f} distinct"
    if (ratio := warmup_ratio(figures)) is not None:
        text += f"; ready {ratio:.2f}× as fast as the whole model"
    if "throughput_ratio" in figures:
        text += f", {figures['throughput_ratio']:.2f}× its throughput"
    return text


@pytest.mark.aspect("regional")
def test_a_repeated_block_compiles_once(judge: Judge) -> None:
    judge(rule)
