"""A repeated block compiles once, and the parts of a model can be compiled in different ways.

Compiling each block must give eager's answers with one compilation for all blocks that are alike.
A disabled block causes graph breaks at its boundary alone. How much sooner regional code is ready,
and how fast it is, are measured against whole-model code in the same process, and judged where a
budget asks for it. https://docs.pytorch.org/tutorials/recipes/regional_compilation.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practice_figures import (
    contention,
    decisive,
    judge_ratio,
    measured,
    quotient,
)
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation
from compilegate.records.statistics import Interval
from compilegate.records.wording import counted


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each step is right and compiles no more than it needs, and the costs are within budget."""
    finding = judge_steps(observation, "regional")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["regional"].figures
    if (judged := decisive(_judged(figures, budget))) is not None:
        return judged
    return Finding("passed", f"{finding.summary}{_described(figures)}", finding.details)


def _warmup(figures: Mapping[str, float]) -> Interval | None:
    return quotient(figures, "whole_compile_s", "regional_compile_s")


def _judged(figures: Mapping[str, float], budget: Budget) -> Iterator[Finding]:
    if (wanted := budget.min_regional_warmup) is not None:
        yield judge_ratio(
            _warmup(figures),
            wanted,
            busy_share=figures.get("compile_busy_share", 0.0),
            what="the blocks compile {} as fast as the whole model",
            key="min_regional_warmup",
        )
    if (wanted := budget.min_regional_throughput) is not None:
        yield judge_ratio(
            measured(figures, "throughput"),
            wanted,
            busy_share=figures.get("call_busy_share", 0.0),
            what="regional code has {} the throughput of whole-model code",
            key="min_regional_throughput",
        )


def _described(figures: Mapping[str, float]) -> str:
    text = ""
    if "blocks" in figures:
        distinct = f"{figures['distinct_blocks']:.0f} distinct"
        text += f"; {counted(figures['blocks'], 'block')}, {distinct}"
    if (warmup := _warmup(figures)) is not None:
        text += f"; ready {warmup.value:.2f}× as fast as the whole model"
    if "throughput_ratio" in figures:
        text += f", {figures['throughput_ratio']:.2f}× its throughput"
    if figures.get("graphs_around_disabled") == 0:
        text += "; where one block is disabled, PyTorch leaves the others to eager, too"
    shares = (figures.get(f"{what}_busy_share", 0.0) for what in ("compile", "call"))
    return text + contention(max(shares))


@pytest.mark.aspect("regional")
def test_a_repeated_block_compiles_once(judge: Judge) -> None:
    judge(rule)
