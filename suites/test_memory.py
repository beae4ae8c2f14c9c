"""Compiled code needs no more memory than its budget allows, relative to eager's peak.

The budget is a ratio to the peak of the same call in eager. A compiled call must also leave no more
memory allocated and no more Python objects than an eager call does.

https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

import math

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.records.observation import Observation
from compilegate.records.performance import Memory, OtherSize
from compilegate.records.wording import memory

MIB = 2**20


#: At another size than the first, ratio and slack are wider by this factor.
ELSEWHERE = 2.0
#: The bytes by which a call may leave more allocated than eager's.
KEPT_BYTES = 1024
#: The same for memory of the C library, which rounds, and caches what threads have freed.
KEPT_NATIVE_BYTES = 16384
#: The same for small Python objects: a free list holds a few, and healthy calls leave up to four.
KEPT_BLOCKS = 16


def rule(observation: Observation, budget: Budget) -> Finding:
    """Nothing leaks, and the compiled peak is within its ratio to eager's plus the slack."""
    seen = observation.memory
    assert seen is not None
    eager, compiled = seen.eager_peak_bytes, seen.compiled_peak_bytes
    text = f"peak {memory(compiled)}, eager {memory(eager)} ({seen.ratio:,.2f}×)"
    if left := _left(seen):
        return Finding("failed", f"each call leaves {left}; {text}", describe(seen))
    if budget.max_memory_ratio is None:
        return Finding("skipped", f"{budget.why_unjudged('max_memory_ratio')}: {text}")
    text += f", at most {budget.max_memory_ratio:g}× allowed"
    if (wasted := _elsewhere(observation.other_size, budget)) is not None:
        return Finding("failed", f"{wasted}; {text}", describe(seen))
    over = compiled - budget.max_memory_ratio * eager
    if over <= budget.memory_slack_bytes:
        slack = (
            f", within the slack of {budget.memory_slack_bytes / MIB:.0f} MiB" if over > 0 else ""
        )
        return Finding("passed", text + slack, describe(seen))
    # Where eager needs next to nothing, a ratio to it says nothing that a slack does not.
    proposal: dict[str, float] = {"memory_slack_bytes": math.ceil(1.1 * over)}
    if eager > budget.memory_slack_bytes:
        proposal = {"max_memory_ratio": round(1.1 * seen.ratio, 2)}
    return Finding("failed", text, describe(seen), proposal)


def _left(seen: Memory) -> str:
    """Return what each call leaves and eager's does not; empty if it leaves nothing."""
    leaked = seen.compiled_kept_bytes - seen.eager_kept_bytes
    if leaked > KEPT_BYTES:
        return f"{leaked / 2**10:,.0f} KiB more allocated than eager"
    objects = seen.compiled_kept_objects - seen.eager_kept_objects
    if objects > 0:
        kinds = ", ".join(f"{n:,} {name}" for name, n in seen.compiled_kept_types.items())
        return f"{objects:,} more Python objects than eager{f' ({kinds})' if kinds else ''}"
    native = seen.compiled_kept_native_bytes - seen.eager_kept_native_bytes
    if native > KEPT_NATIVE_BYTES:
        return f"{native / 2**10:,.0f} KiB more in use outside PyTorch than eager"
    blocks = seen.compiled_kept_blocks - seen.eager_kept_blocks
    if blocks > KEPT_BLOCKS:
        return f"{blocks:,} more small Python objects than eager, such as numbers or strings"
    return ""


def _elsewhere(seen: OtherSize | None, budget: Budget) -> str | None:
    """Return what is wrong with the peak at another size; None if nothing is."""
    if seen is None or budget.max_memory_ratio is None:
        return None
    allowed = ELSEWHERE * budget.max_memory_ratio * seen.eager_peak_bytes
    if seen.compiled_peak_bytes <= allowed + budget.memory_slack_bytes:
        return None
    return (
        f"at {seen.name}, peak {memory(seen.compiled_peak_bytes)}, "
        f"eager {memory(seen.eager_peak_bytes)}"
    )


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
