"""Compiled code needs no more memory than its budget allows, relative to eager's peak.

The budget is a ratio to the peak of the same call in eager. A compiled call must also leave no more
memory allocated and no more Python objects than an eager call does.

https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.judge import Finding, Judge
from compilegate.records.observation import Observation
from compilegate.records.performance import Memory

MIB = 2**20


#: The bytes by which a call may leave more allocated than eager's.
KEPT_BYTES = 1024


def rule(observation: Observation, budget: Budget) -> Finding:
    """Nothing leaks, and the compiled peak is within its ratio to eager's plus the slack."""
    seen = observation.memory
    assert seen is not None
    eager, compiled = seen.eager_peak_bytes, seen.compiled_peak_bytes
    text = f"peak {compiled / MIB:.1f} MiB, eager {eager / MIB:.1f} MiB ({seen.ratio:.2f}×)"
    leaked = seen.compiled_kept_bytes - seen.eager_kept_bytes
    if leaked > KEPT_BYTES:
        text = f"each call leaves {leaked / 2**10:,.0f} KiB more allocated than eager; {text}"
        return Finding("failed", text, describe(seen))
    objects = seen.compiled_kept_objects - seen.eager_kept_objects
    if objects > 0:
        kinds = ", ".join(f"{n:,} {name}" for name, n in seen.compiled_kept_types.items())
        of = f" ({kinds})" if kinds else ""
        text = f"each call leaves {objects:,} more Python objects than eager{of}; {text}"
        return Finding("failed", text, describe(seen))
    if budget.max_memory_ratio is None:
        return Finding("skipped", f"{budget.why_unjudged('max_memory_ratio')}: {text}")
    text += f", at most {budget.max_memory_ratio:g}× allowed"
    over = compiled - budget.max_memory_ratio * eager
    if over <= budget.memory_slack_bytes:
        slack = (
            f", within the slack of {budget.memory_slack_bytes / MIB:.0f} MiB" if over > 0 else ""
        )
        return Finding("passed", text + slack, describe(seen))
    proposal = {"max_memory_ratio": round(1.1 * seen.ratio, 2)} if eager else {}
    return Finding("failed", text, describe(seen), proposal)


def describe(seen: Memory) -> tuple[str, ...]:
    """Return further figures of a GPU's allocator."""
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


@pytest.mark.aspect("memory")
def test_peak_memory_is_within_budget(judge: Judge) -> None:
    judge(rule)
