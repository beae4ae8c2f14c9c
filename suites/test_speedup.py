"""Compiled code is as much faster than eager as the budget demands: the call, and its kernels.

Each round times both in random order. The verdict follows from the interval of the ratios, and is
*inconclusive* if the threshold lies in that interval. A call whose kernels are short measures the
host. It may be slower than eager by some *empty compiled calls*, timed on the same machine.
Where a GPU's kernels were profiled, they have a threshold of their own, which no host can hide.
A few calls at another size show code that is far slower there.
pytest-benchmark shows the rounds of both.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_performance_dashboard.html
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.performance import Condition, OtherSize, Timing
from compilegate.records.statistics import Interval, is_busy, paired_speedup
from compilegate.records.verdict import Outcome
from compilegate.session.replay_clock import ReplayClock

CLOCK = ReplayClock()
#: The empty compiled call of runs that timed none: those of earlier versions of compilegate.
ASSUMED_EMPTY_CALL_NS = 100e3


class _Part(NamedTuple):
    """What was found about calls, or about kernels."""

    outcome: Outcome
    text: str


#: At another size than the first, a few calls show only what is slower by this factor and by more
#: than this.
ELSEWHERE, ELSEWHERE_SLACK_NS = 3.0, 1e6
#: Above this multiple of what is allowed there, other processes explain it only where several
#: threads wait for each other: both sides are called in turn, and the quickest call of each counts.
BEYOND_LOAD = 5.0

#: The outcome of all parts is the first of these that one of them has.
_DECISIVE: tuple[Outcome, ...] = ("failed", "inconclusive", "passed", "skipped")


def rule(observation: Observation, budget: Budget) -> Finding:
    """Neither the interval of the call's speedup nor the kernels' lies below its threshold."""
    timing = observation.timing
    assert timing is not None
    seen, kernels = paired_speedup(timing.eager_ns, timing.compiled_ns), timing.kernel_speedup
    call, proposal = _call(timing, seen, budget), {}
    parts = [call]
    if call.outcome == "failed":
        proposal["min_speedup"] = _rounded_down(0.9 * seen.low)
    said = timing.disturbance and timing.disturbance in call.text
    if kernels is not None and budget.min_kernel_speedup is not None and not said:
        parts.append(_kernels(timing, kernels, budget.min_kernel_speedup, budget.kernel_slack_us))
        if parts[-1].outcome == "failed":
            proposal["min_kernel_speedup"] = _rounded_down(0.9 * kernels)
    parts += _elsewhere(observation.other_size, timing, budget)
    found = {part.outcome for part in parts}
    outcome = next(outcome for outcome in _DECISIVE if outcome in found)
    return Finding(outcome, "; ".join(part.text for part in parts), describe(timing), proposal)


def _call(timing: Timing, seen: Interval, budget: Budget) -> _Part:
    text = f"{seen.text} over {len(timing.eager_ns)} rounds"
    if budget.min_speedup is None:
        return _Part("skipped", f"{budget.why_unjudged('min_speedup')}: {text}")
    text += f", at least {budget.min_speedup:g}× wanted"
    if hidden := timing.disturbance or timing.stall:
        return _Part("inconclusive", f"{text}: {hidden}")
    if seen.low >= budget.min_speedup:
        return _Part("passed", text)
    if budget.min_speedup <= 1.0 and budget.max_call_overhead:
        text += f"; {_overhead(timing, budget.max_call_overhead)}"
        if timing.overhead_ns <= budget.max_call_overhead * _empty_call_ns(timing):
            return _Part("passed", text)
    if seen.high < budget.min_speedup and not is_busy(timing.busy, timing.threads):
        return _Part("failed", text)
    straddles = seen.high >= budget.min_speedup
    busy = _held(timing.busy, 0 if is_busy(timing.busy) else timing.threads)
    return _Part("inconclusive", f"{text}: {'the interval straddles it' if straddles else busy}")


def _elsewhere(seen: OtherSize | None, timing: Timing, budget: Budget) -> list[_Part]:
    """Return a part if the quickest of a few calls at another size are far too slow."""
    if seen is None or not seen.eager_ns or not budget.min_speedup:
        return []
    eager, compiled = min(seen.eager_ns), min(seen.compiled_ns)
    allowed = ELSEWHERE * max(eager, eager / budget.min_speedup) + ELSEWHERE_SLACK_NS
    allowed += (budget.max_call_overhead or 0.0) * _empty_call_ns(timing)
    if compiled <= allowed:
        return []
    text = f"at {seen.name}, a call takes {compiled / 1e6:.4g} ms, in eager {eager / 1e6:.4g} ms"
    is_beyond, is_held = compiled > BEYOND_LOAD * allowed, is_busy(seen.busy, timing.threads)
    if is_held and timing.threads > 1:  # each call may wait until the last thread gets a processor
        return [_Part("inconclusive", f"{text}: {_held(seen.busy, timing.threads)}")]
    if timing.disturbance and not is_beyond:
        return [_Part("inconclusive", f"{text}: {timing.disturbance}")]
    if is_held and not is_beyond:
        return [_Part("inconclusive", f"{text}: {_held(seen.busy)}")]
    return [_Part("failed", text)]


def _held(busy: float, threads: int = 0) -> str:
    """Say what others took of the processor, and which threads waited for it if there are some."""
    text = f"other processes took {busy:.0%} of the processor"
    return f"{text}, and the {threads} threads of a call wait for each other" if threads else text


def _overhead(timing: Timing, allowed: float) -> str:
    if timing.overhead_ns <= 0:
        return "no slower in the quickest rounds"
    empty_us = _empty_call_ns(timing) / 1e3
    assumed = "" if timing.empty_call_ns else "assumed, because the run timed none: "
    return (
        f"slower by {timing.overhead_ns / 1e3:.0f} µs, {allowed:g} empty compiled calls "
        f"({assumed}{empty_us:.0f} µs each) are allowed"
    )


def _empty_call_ns(timing: Timing) -> float:
    return timing.empty_call_ns or ASSUMED_EMPTY_CALL_NS


def _kernels(timing: Timing, speedup: float, wanted: float, slack_us: float) -> _Part:
    text = f"kernels {speedup:.2f}×, at least {wanted:g}× wanted"
    if timing.disturbance:
        return _Part("inconclusive", f"{text}: {timing.disturbance}")
    if speedup >= wanted:
        return _Part("passed", text)
    slower_us = (timing.compiled_kernels_ns - timing.eager_kernels_ns) / 1e3
    text += f", slower by {slower_us:.0f} µs"
    if slower_us <= slack_us:
        return _Part("passed", f"{text}, within the slack of {slack_us:g} µs")
    return _Part("failed", text)


def describe(timing: Timing) -> tuple[str, ...]:
    """Return further measurements: a line for each side, the empty call, and the GPU."""
    lines = [
        _side("eager", timing.eager_ns, timing.eager_kernels_ns, timing.items),
        _side("compiled", timing.compiled_ns, timing.compiled_kernels_ns, timing.items),
    ]
    if timing.empty_call_ns:
        lines.append(f"empty compiled call: {timing.empty_call_ns / 1e3:.3g} µs")
    if timing.clock == "events":
        lines.append(_condition(timing.conditions))
    if timing.conditions_unavailable:
        lines.append(f"clocks of the GPU: unavailable: {timing.conditions_unavailable}")
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


def _rounded_down(value: float) -> float:
    return math.floor(value * 100) / 100


@pytest.mark.aspect("speedup")
@pytest.mark.benchmark(timer=CLOCK)
def test_speedup_is_within_budget(
    judge: Judge, benchmark: Any, case: Case, observation: Observation
) -> None:
    CLOCK.show(benchmark, case, observation.timing)
    judge(rule)
