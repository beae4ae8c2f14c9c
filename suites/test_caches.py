"""What one process compiles, another finds in the cache, and never takes for something else.

A second process must find each graph, and give eager's answers. A change of what code depends on
must not be found, and truncated files cost a compilation at most. How much time a filled cache
saves is shown, and judged where a budget asks for it.
https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_tutorial.html
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practice_figures import contention, judge_ratio, quotient
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation
from compilegate.records.performance import Timing
from compilegate.records.statistics import Interval, paired_speedup


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each step is right, and a filled cache saves as much time as budgeted."""
    finding = judge_steps(observation, "caches")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["caches"].figures
    wanted = budget.min_cache_speedup
    if wanted is not None:
        judged = judge_ratio(
            _speedup(figures),
            wanted,
            busy_share=_busy_share(figures),
            what="a filled cache makes compiling {} as fast",
            key="min_cache_speedup",
        )
        if judged.outcome != "passed":
            return judged
    text = f"{finding.summary}{_described(figures)}{_break_even(figures, observation.timing)}"
    return Finding("passed", text, finding.details)


def _speedup(figures: Mapping[str, float]) -> Interval | None:
    return quotient(figures, "cold_s", "warm_s")


def _busy_share(figures: Mapping[str, float]) -> float:
    return max(figures.get(f"{side}_busy_share", 0.0) for side in ("cold", "warm"))


def _described(figures: Mapping[str, float]) -> str:
    text = ""
    if (saved := _speedup(figures)) is not None:
        text += f"; {figures['cold_s']:.2f} s of compiling, {figures['warm_s']:.2f} s with a filled"
        text += f" cache ({saved.value:.1f}×)"
    if "artifacts_s" in figures:
        text += f", {figures['artifacts_s']:.2f} s with loaded artifacts"
    text += contention(_busy_share(figures))
    if figures.get("empty_kernels_raise"):
        text += "; an empty kernel file raises, and is not compiled again"
    return text


def _break_even(figures: Mapping[str, float], timing: Timing | None) -> str:
    """Return after how many calls compiling with an empty cache has paid off."""
    if timing is None or "cold_s" not in figures:
        return ""
    seen = paired_speedup(timing.eager_ns, timing.compiled_ns)
    if seen.high <= 1:
        return "; never pays off: a compiled call is not faster"
    if seen.low <= 1:
        return "; whether it pays off is not clear"
    pairs = zip(timing.eager_ns, timing.compiled_ns, strict=True)
    saved_s = statistics.median(eager - compiled for eager, compiled in pairs) / 1e9
    return f"; pays off after {figures['cold_s'] / saved_s:,.0f} calls"


@pytest.mark.aspect("caches")
def test_a_second_process_finds_what_the_first_one_compiled(judge: Judge) -> None:
    judge(rule)
