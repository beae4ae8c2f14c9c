"""Compiled code needs no more memory than budgeted, relative to eager's peak of the same call.

https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

import pytest

from fixtures.budgets import Budget
from fixtures.judging import Finding, Judge
from fixtures.observation import Memory, Observation

MIB = 2**20


def rule(observation: Observation, budget: Budget) -> Finding:
    """The compiled peak is within its ratio to eager's, give or take the slack."""
    seen = observation.memory
    assert seen is not None
    eager, compiled = seen.eager_peak_bytes, seen.compiled_peak_bytes
    ratio = compiled / eager if eager else float("inf") if compiled else 1.0
    text = f"peak {compiled / MIB:.1f} MiB, eager {eager / MIB:.1f} MiB ({ratio:.2f}×)"
    if budget.max_memory_ratio is None:
        other = budget.elsewhere.get("max_memory_ratio")
        why = f"the threshold is for {other}" if other else "no threshold"
        return Finding("skipped", f"not judged, {why}: {text}")
    text += f", at most {budget.max_memory_ratio:g}× allowed"
    over = compiled - budget.max_memory_ratio * eager
    if over <= budget.memory_slack_bytes:
        slack = (
            f", within the slack of {budget.memory_slack_bytes / MIB:.0f} MiB" if over > 0 else ""
        )
        return Finding("passed", text + slack, describe(seen))
    proposal = {"max_memory_ratio": round(1.1 * ratio, 2)} if eager else {}
    return Finding("failed", text, describe(seen), proposal)


def describe(seen: Memory) -> tuple[str, ...]:
    """What else the allocator of a GPU tells."""
    if not seen.compile_peak_bytes:
        return ()
    reserved = f"eager {seen.eager_reserved_bytes / MIB:.0f} MiB, "
    reserved += f"compiled {seen.compiled_reserved_bytes / MIB:.0f} MiB"
    if seen.graphs_bytes:
        reserved += f", of which CUDA graphs keep {seen.graphs_bytes / MIB:.0f} MiB"
    return (
        f"reserved: {reserved}",
        f"peak while compiling: {seen.compile_peak_bytes / MIB:.0f} MiB",
    )


@pytest.mark.aspect("memory", wants=("capture", "memory"))
def test_peak_memory_is_within_budget(judge: Judge) -> None:
    judge(rule)
