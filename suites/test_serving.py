"""Threads of one process can call compiled modules at once, as those of a server do.

Each thread must have eager's answer to its own inputs, without compiling again, under ``no_grad``
and under ``inference_mode``. How many calls a second the threads make, and the 95th percentile of
their times, are measured against eager in the same threads, and judged where a budget asks for it.
https://docs.pytorch.org/docs/stable/notes/autograd.html#inference-mode
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.judge import Finding, Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation
from compilegate.records.statistics import BUSY


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each step is right and compiles no more than it needs, and the speed is within budget."""
    finding = judge_steps(observation, "serving")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["serving"].figures
    speeds = _speeds(figures, budget)
    decisive = next((s for s in speeds if s.outcome == "failed"), None) or next(
        (s for s in speeds if s.outcome == "inconclusive"), None
    )
    if decisive is not None:
        return decisive
    return Finding("passed", f"{finding.summary}{_described(figures)}", finding.details)


def _speeds(figures: Mapping[str, float], budget: Budget) -> list[Finding]:
    found = []
    if budget.min_serving_throughput is not None:
        found.append(_throughput(figures, budget.min_serving_throughput))
    if budget.max_serving_p95 is not None:
        found.append(_p95(figures, budget.max_serving_p95))
    return found


def _throughput(figures: Mapping[str, float], wanted: float) -> Finding:
    if "throughput_ratio" not in figures:
        return Finding("inconclusive", "the throughput of the threads was not measured")
    low, high = figures["throughput_low_ratio"], figures["throughput_high_ratio"]
    text = (
        f"{figures['threads']:.0f} threads make {figures['throughput_ratio']:.2f}× [{low:.2f}, "
        f"{high:.2f}] eager's calls a second, at least {wanted:g}× wanted"
    )
    proposal = {"min_serving_throughput": math.floor(90 * low) / 100}
    return _judged(text, figures, low >= wanted, high < wanted, proposal)


def _p95(figures: Mapping[str, float], wanted: float) -> Finding:
    if "p95_ratio" not in figures:
        return Finding("inconclusive", "the times of the threads' calls were not measured")
    low, high = figures["p95_low_ratio"], figures["p95_high_ratio"]
    text = (
        f"the 95th percentile of calls in {figures['threads']:.0f} threads is "
        f"{figures['p95_ratio']:.2f}× [{low:.2f}, {high:.2f}] eager's, at most {wanted:g}× wanted"
    )
    proposal = {"max_serving_p95": math.ceil(110 * high) / 100}
    return _judged(text, figures, high <= wanted, low > wanted, proposal)


def _judged(
    text: str,
    figures: Mapping[str, float],
    within: bool,
    beyond: bool,
    proposal: dict[str, float],
) -> Finding:
    """Judge an interval that lies within the budget, beyond it, or across."""
    if within:
        return Finding("passed", text)
    if not beyond:
        return Finding("inconclusive", text)
    if figures["calls_busy_share"] > BUSY:
        return Finding("inconclusive", f"{text}: others took much of the processor")
    return Finding("failed", text, proposal=proposal)


def _described(figures: Mapping[str, float]) -> str:
    if "throughput_ratio" not in figures:
        return ""
    return (
        f"; {figures['threads']:.0f} threads make {figures['throughput_ratio']:.2f}× eager's calls "
        f"a second and {figures['threads_ratio']:.2f}× those of one thread; 95th percentile "
        f"{figures['compiled_p95_ms']:.3g} ms (eager {figures['eager_p95_ms']:.3g} ms)"
    )


@pytest.mark.aspect("serving")
def test_threads_call_compiled_modules_at_once(judge: Judge) -> None:
    judge(rule)
