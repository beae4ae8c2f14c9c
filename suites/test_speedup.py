"""Compiled code is worth it: at least as much faster than eager as budgeted.

Rounds are paired and shuffled; the verdict is taken from the interval of their ratios, and is
*inconclusive* where that straddles the threshold. pytest-benchmark shows the compiled rounds.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_performance_dashboard.html
"""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.budgets import Budget
from fixtures.judging import Finding, Judge
from fixtures.observation import Observation
from fixtures.replay_clock import ReplayClock
from reports.statistics import Interval, paired_speedup

CLOCK = ReplayClock()
#: Where others take more of the processor than this, threads wait for each other, and a slow call
#: says nothing.
BUSY = 0.2


def rule(observation: Observation, budget: Budget) -> Finding:
    """The speedup's interval does not lie below the threshold."""
    timing = observation.timing
    assert timing is not None
    seen = paired_speedup(timing.eager_ns, timing.compiled_ns)
    text = f"{seen.value:.2f}× [{seen.low:.2f}, {seen.high:.2f}] over {len(timing.eager_ns)} rounds"
    if budget.min_speedup is None:
        other = budget.elsewhere.get("min_speedup")
        why = f"the threshold is for {other}" if other else "no threshold"
        return Finding("skipped", f"not judged, {why}: {text}")
    text += f", at least {budget.min_speedup:g}× wanted"
    allowed_ns = budget.max_call_overhead_us * 1e3
    # The quickest rounds: what a busy machine adds to the others is not the call's overhead.
    slower_ns = min(timing.compiled_ns) - min(timing.eager_ns)
    if seen.low >= budget.min_speedup:
        return Finding("passed", text)
    if slower_ns <= allowed_ns and budget.min_speedup <= 1.0:
        return Finding("passed", f"{text}; within {budget.max_call_overhead_us:g} µs of overhead")
    if seen.high >= budget.min_speedup:
        return Finding("inconclusive", f"{text}: the interval straddles it")
    if timing.busy > BUSY:
        return Finding("inconclusive", f"{text}: others took {timing.busy:.0%} of the processor")
    return Finding("failed", text, proposal={"min_speedup": _proposed(seen)})


def _proposed(seen: Interval) -> float:
    """A threshold with a margin for the next machine's mood."""
    return round(0.9 * seen.low, 2)


@pytest.mark.aspect("speedup", wants=("capture", "time"))
@pytest.mark.benchmark(timer=CLOCK)
def test_compiled_is_fast_enough(judge: Judge, benchmark: Any, observation: Observation) -> None:
    CLOCK.show(benchmark, observation.timing)
    judge(rule)
