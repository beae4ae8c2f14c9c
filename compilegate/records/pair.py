"""The record of two processes that were measured in turns, one under each PyTorch.

Standard library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from compilegate.records.observation import Observation
from compilegate.records.performance import CompileTime, Energy, Memory, Timing

Side = Literal["baseline", "candidate"]


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The costs of a case in one process. A figure that was not measured is None.

    Attributes:
        eager_ns: Median nanoseconds of an eager call.
        compiled_ns: Median nanoseconds of a compiled call.
        eager_p95_ns: 95th percentile of eager's rounds, in nanoseconds a call.
        compiled_p95_ns: The same of compiled code.
        eager_best_ns: The quickest of eager's rounds, in nanoseconds a call.
        compiled_best_ns: The same of compiled code.
        eager_kernels_ns: Nanoseconds of the GPU's kernels in an eager call.
        compiled_kernels_ns: The same in a compiled call.
        speedup: Exponential of the median of ln eager − ln compiled, over its rounds.
        rounds: The number of rounds.
        busy: Share of the processor that others took while it was timed.
        disturbance: Why the GPU was not in its normal state; empty where it was.
        compile_s: Seconds of a compilation in an empty cache.
        compile_busy: Share of the processor that others took while it compiled.
        warm_s: Seconds of the first call with warm caches.
        warm_busy: Share of the processor that others took during that call.
        eager_peak_bytes: Peak memory of an eager call.
        compiled_peak_bytes: Peak memory of a compiled call.
        eager_reserved_bytes: What a GPU's allocator reserved for an eager call.
        compiled_reserved_bytes: The same for a compiled call.
        compiled_unused_bytes: How much of it was reserved before the call, and not allocated.
        first_call_kept_bytes: What is allocated after the first compiled call, above its start.
        eager_j: Joules of an eager call.
        compiled_j: Joules of a compiled call.
    """

    eager_ns: float | None = None
    compiled_ns: float | None = None
    eager_p95_ns: float | None = None
    compiled_p95_ns: float | None = None
    eager_best_ns: float | None = None
    compiled_best_ns: float | None = None
    eager_kernels_ns: float | None = None
    compiled_kernels_ns: float | None = None
    speedup: float | None = None
    rounds: int = 0
    busy: float = 0.0
    disturbance: str = ""
    compile_s: float | None = None
    compile_busy: float = 0.0
    warm_s: float | None = None
    warm_busy: float = 0.0
    eager_peak_bytes: float | None = None
    compiled_peak_bytes: float | None = None
    eager_reserved_bytes: float | None = None
    compiled_reserved_bytes: float | None = None
    compiled_unused_bytes: float | None = None
    first_call_kept_bytes: float | None = None
    eager_j: float | None = None
    compiled_j: float | None = None

    @classmethod
    def of(cls, seen: Observation) -> Costs:
        """Return the costs that an observation measured.

        Where nothing was compiled, the first call took no time to compile: another PyTorch that
        compiles the model is not slower at it.
        """
        compiled = seen.capture is None or seen.capture.graphs > 0
        return cls(
            **_of_timing(seen.timing),
            **_of_memory(seen.memory),
            **_of_compiling(seen.compile_time if compiled else None, cold=seen.cold),
            **_of_energy(seen.energy),
        )


def _of_timing(timing: Timing | None) -> dict[str, Any]:
    if timing is None:
        return {}
    eager, compiled = timing.eager_ns, timing.compiled_ns
    return {
        "eager_ns": statistics.median(eager),
        "compiled_ns": statistics.median(compiled),
        "eager_p95_ns": _p95(eager),
        "compiled_p95_ns": _p95(compiled),
        "eager_best_ns": min(eager),
        "compiled_best_ns": min(compiled),
        "eager_kernels_ns": timing.eager_kernels_ns or None,
        "compiled_kernels_ns": timing.compiled_kernels_ns or None,
        "speedup": math.exp(
            statistics.median(math.log(e / c) for e, c in zip(eager, compiled, strict=True))
        ),
        "rounds": len(eager),
        "busy": timing.busy,
        "disturbance": timing.disturbance,
    }


def _p95(rounds_ns: Sequence[float]) -> float:
    return statistics.quantiles(rounds_ns, n=20)[-1] if len(rounds_ns) > 1 else rounds_ns[0]


def _of_memory(memory: Memory | None) -> dict[str, Any]:
    if memory is None:
        return {}
    return {
        "eager_peak_bytes": memory.eager_peak_bytes,
        "compiled_peak_bytes": memory.compiled_peak_bytes,
        "eager_reserved_bytes": memory.eager_reserved_bytes or None,
        "compiled_reserved_bytes": memory.compiled_reserved_bytes or None,
        "compiled_unused_bytes": memory.compiled_unused_bytes,
        "first_call_kept_bytes": memory.first_call_kept_bytes,
    }


def _of_compiling(seen: CompileTime | None, *, cold: bool) -> dict[str, Any]:
    if seen is None:
        return {}
    measured: dict[str, Any] = {"warm_s": seen.warm_s, "warm_busy": seen.warm_busy}
    if cold:  # with a warm cache, its content decides how long it takes
        measured |= {"compile_s": seen.total_s, "compile_busy": seen.busy}
    return measured


def _of_energy(energy: Energy | None) -> dict[str, Any]:
    if energy is None or energy.unavailable:
        return {}
    return {"eager_j": energy.eager_j, "compiled_j": energy.compiled_j}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two processes on one device, timed alternately (A B B A).

    Attributes:
        case: The case's id.
        number: 0 for the pair that observed the case and screens it; from 1 on, fresh pairs.
        first: Which of the two began.
        baseline: The costs under the PyTorch in use; None where it did not get that far.
        candidate: The costs under the new one.
        failure: Why one of them is missing.
    """

    case: str
    number: int
    first: Side
    baseline: Costs | None = None
    candidate: Costs | None = None
    failure: str = ""


def latest(pairs: Iterable[Pair]) -> dict[tuple[str, int], Pair]:
    """Return the last pair of each case and number, given pairs in the order they were made.

    A screening pair observed the case again, so its earlier pairs belong to another session.
    """
    found: dict[tuple[str, int], Pair] = {}
    for pair in pairs:
        if pair.number == 0:
            found = {key: kept for key, kept in found.items() if key[0] != pair.case}
        found[pair.case, pair.number] = pair
    return found
