"""Compiled code is faster than eager by at least the factor that the budget demands.

Each round times both in random order. The verdict follows from the interval of the ratios, and is
*inconclusive* if the threshold lies in that interval. pytest-benchmark shows the rounds of both.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_performance_dashboard.html
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import pytest

from compilegate.judging.aspects import Budget
from compilegate.judging.judge import Finding, Judge
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.performance import Condition, Timing
from compilegate.records.statistics import BUSY, Interval, paired_speedup
from compilegate.records.verdict import Outcome
from compilegate.session.replay_clock import ReplayClock

CLOCK = ReplayClock()


def rule(observation: Observation, budget: Budget) -> Finding:
    """The speedup's interval does not lie below the threshold."""
    timing = observation.timing
    assert timing is not None
    seen = paired_speedup(timing.eager_ns, timing.compiled_ns)
    outcome, summary = _decide(timing, seen, budget)
    proposal = {"min_speedup": _proposed(seen)} if outcome == "failed" else {}
    return Finding(outcome, summary, describe(timing), proposal)


def _decide(timing: Timing, seen: Interval, budget: Budget) -> tuple[Outcome, str]:
    text = f"{seen.value:.2f}× [{seen.low:.2f}, {seen.high:.2f}] over {len(timing.eager_ns)} rounds"
    if budget.min_speedup is None:
        return "skipped", f"{budget.why_unjudged('min_speedup')}: {text}"
    text += f", at least {budget.min_speedup:g}× wanted"
    if timing.disturbance:
        return "inconclusive", f"{text}: {timing.disturbance}"
    if seen.low >= budget.min_speedup:
        return "passed", text
    if timing.overhead_us <= budget.max_call_overhead_us and budget.min_speedup <= 1.0:
        return "passed", f"{text}; within {budget.max_call_overhead_us:g} µs of overhead"
    if seen.high < budget.min_speedup and timing.busy <= BUSY:
        return "failed", text
    straddles = seen.high >= budget.min_speedup
    busy = f"others took {timing.busy:.0%} of the processor"
    return "inconclusive", f"{text}: {'the interval straddles it' if straddles else busy}"


def describe(timing: Timing) -> tuple[str, ...]:
    """Return further measurements: a line for each side, and one for the GPU."""
    lines = [
        _side("eager", timing.eager_ns, timing.eager_kernels_ns, timing.items),
        _side("compiled", timing.compiled_ns, timing.compiled_kernels_ns, timing.items),
    ]
    if timing.clock == "events":
        lines.append(_condition(timing.conditions))
    return tuple(lines)


def _condition(seen: Sequence[Condition]) -> str:
    if not seen:
        return "NVML does not report whether the GPU throttled"
    clocks = [one.sm_mhz for one in seen if one.sm_mhz is not None]
    degrees = [one.temperature_c for one in seen if one.temperature_c is not None]
    watts = [one.power_w for one in seen if one.power_w is not None]
    parts = [f"at {_range(clocks)} MHz"] if clocks else []
    parts += [f"up to {max(degrees)} °C"] if degrees else []
    parts += [f"up to {max(watts):.0f} W"] if watts else []
    return f"GPU {', '.join(parts) or 'of unknown clock, temperature and power'}"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low} to {high}" if low < high else f"{low}"


def _side(name: str, rounds_ns: Sequence[float], kernels_ns: float, items: int) -> str:
    median = statistics.median(rounds_ns)
    p95 = statistics.quantiles(rounds_ns, n=20)[-1]
    text = f"{name}: median {median / 1e6:.4g} ms, p95 {p95 / 1e6:.4g} ms"
    text += f", {items / median * 1e9:.4g} items/s" if items else ""
    return text + (f", kernels {kernels_ns / 1e6:.4g} ms" if kernels_ns else "")


def _proposed(seen: Interval) -> float:
    """Return a threshold with a margin for the noise of other machines."""
    return round(0.9 * seen.low, 2)


@pytest.mark.aspect("speedup")
@pytest.mark.benchmark(timer=CLOCK)
def test_speedup_is_within_budget(
    judge: Judge, benchmark: Any, case: Case, observation: Observation
) -> None:
    CLOCK.show(benchmark, case, observation.timing)
    judge(rule)
