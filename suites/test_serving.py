"""Threads of one process can call compiled modules at once, as those of a server do.

Each thread must have eager's answer to its own inputs, without compiling again, under ``no_grad``
and under ``inference_mode``. How many calls a second the threads make, and the 95th percentile of
their times, are measured against eager in the same threads, and judged where a budget asks for it.
https://docs.pytorch.org/docs/stable/notes/autograd.html#inference-mode
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practice_figures import contention, decisive, judge_ratio, measured
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each step is right and compiles no more than it needs, and the speed is within budget."""
    finding = judge_steps(observation, "serving")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["serving"].figures
    if (judged := decisive(_judged(figures, budget))) is not None:
        return judged
    return Finding("passed", f"{finding.summary}{_described(figures)}", finding.details)


def _judged(figures: Mapping[str, float], budget: Budget) -> Iterator[Finding]:
    threads = f"{figures.get('threads', 0):.0f} threads"
    for name, key, wanted, what in (
        (
            "throughput",
            "min_serving_throughput",
            budget.min_serving_throughput,
            f"{threads} make {{}} eager's calls a second",
        ),
        (
            "p95",
            "max_serving_p95",
            budget.max_serving_p95,
            f"the 95th percentile of calls in {threads} is {{}} eager's",
        ),
    ):
        if wanted is not None:
            seen, busy = measured(figures, name), figures.get("calls_busy_share", 0.0)
            yield judge_ratio(seen, wanted, busy_share=busy, what=what, key=key)


def _described(figures: Mapping[str, float]) -> str:
    if "throughput_ratio" not in figures:
        return ""
    return (
        f"; {figures['threads']:.0f} threads make {figures['throughput_ratio']:.2f}× eager's calls "
        f"a second and {figures['threads_ratio']:.2f}× those of one thread; 95th percentile "
        f"{figures['compiled_p95_ms']:.3g} ms (eager {figures['eager_p95_ms']:.3g} ms)"
        f"{contention(figures.get('calls_busy_share', 0.0))}"
    )


@pytest.mark.aspect("serving")
def test_threads_call_compiled_modules_at_once(judge: Judge) -> None:
    judge(rule)
