"""Compiling takes no longer than the budget allows.

Only cold compilations are judged: with a warm cache, its content decides how long they take.

https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_profiling_torch_compile.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.records.observation import Observation
from compilegate.records.performance import CompileTime
from compilegate.records.statistics import is_busy

#: How many times as long as at first compiling may take at another size: code for any size is
#: harder to find.
ELSEWHERE = 2.0


def rule(observation: Observation, budget: Budget) -> Finding:
    """Cold compile time is within budget, also at other sizes."""
    seen = observation.compile_time
    assert seen is not None
    text = (
        f"{seen.total_s:.1f} s (dynamo {seen.dynamo_s:.1f}, aot {seen.aot_s:.1f}, "
        f"inductor {seen.inductor_s:.1f}, codegen {seen.codegen_s:.1f})"
    )
    if not observation.cold:
        return Finding("skipped", f"not judged, compiled with a warm cache: {text}")
    if budget.max_compile_s is None:
        return Finding("skipped", f"{budget.why_unjudged('max_compile_s')}: {text}")
    text += f", at most {budget.max_compile_s:g} s allowed"
    if seen.total_s <= budget.max_compile_s:
        return _elsewhere(seen, ELSEWHERE * budget.max_compile_s) or Finding("passed", text)
    if is_busy(seen.busy):
        busy = f"other processes took {seen.busy:.0%} of the processor"
        return Finding("inconclusive", f"{text}: {busy}")
    return Finding("failed", text, proposal={"max_compile_s": round(1.5 * seen.total_s, 1)})


def _elsewhere(seen: CompileTime, allowed_s: float) -> Finding | None:
    """Return what is wrong with the compile time of a later call; None if nothing is."""
    if seen.other_s <= allowed_s:
        return None
    text = f"{seen.other_call}: {seen.other_s:.1f} s, at most {allowed_s:g} s allowed"
    text += f" at another size ({seen.total_s:.1f} s at the first)"
    if is_busy(seen.other_busy):
        busy = f"other processes took {seen.other_busy:.0%} of the processor"
        return Finding("inconclusive", f"{text}: {busy}")
    return Finding("failed", text)


@pytest.mark.aspect("compile_time")
def test_cold_compile_time_is_within_budget(judge: Judge) -> None:
    judge(rule)
