"""Memory of a call, above what is held before: what the allocator holds at most, and at the end."""

from __future__ import annotations

import contextlib
import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import torch
from torch._C._autograd import DeviceType

from compilegate.records.performance import Memory

Step = Callable[[], object]


#: So many calls are made: the first shows the peaks, and all of them what a call leaves.
_CALLS = 3


class _Taken(NamedTuple):
    """Bytes that one call takes, or one of several."""

    allocated: int
    reserved: int
    kept: int


def peak_memory(eager: Step, compiled: Step, *, device: str, compile_peak_bytes: int) -> Memory:
    """Peaks of one call of each, and what calls leave allocated.

    Args:
        eager: One eager call.
        compiled: One compiled call.
        device: ``cpu`` or ``cuda``.
        compile_peak_bytes: What the first call took, which compiled it.
    """
    call = _cuda_call if device == "cuda" else _cpu_call
    with _quick_collection():
        ours, theirs = (
            _of_calls([call(step) for _ in range(_CALLS)]) for step in (eager, compiled)
        )
    # Between calls CUDA graphs keep the memory that they were recorded in: it is theirs, not the
    # call's start.
    graphs, _ = _pools_of_graphs() if device == "cuda" else (0, 0)
    return Memory(
        eager_peak_bytes=ours.allocated,
        compiled_peak_bytes=theirs.allocated + graphs,
        eager_reserved_bytes=ours.reserved,
        compiled_reserved_bytes=theirs.reserved + graphs,
        graphs_bytes=graphs,
        compile_peak_bytes=compile_peak_bytes,
        eager_kept_bytes=ours.kept,
        compiled_kept_bytes=theirs.kept,
    )


@contextlib.contextmanager
def _quick_collection() -> Iterator[None]:
    """Look for garbage among what is made from here on only: that takes no time."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _of_calls(calls: Sequence[_Taken]) -> _Taken:
    """What is kept in the middle one: once in a while a call fills a cache, or empties one."""
    return calls[0]._replace(kept=statistics.median_low(call.kept for call in calls))


class CudaPeak:
    """The peaks of a ``with`` block, above what is allocated where it begins.

    Garbage goes when it is made: what is freed in the middle of the block would hide as much of its
    peak. And unused blocks go back to the GPU, or they would be reserved already.

    Attributes:
        allocated_bytes: Most bytes allocated.
        reserved_bytes: Most bytes that the allocator had taken from the GPU, without what CUDA
            graphs held where the block began.
    """

    def __init__(self) -> None:
        self.allocated_bytes = self.reserved_bytes = 0
        self._before = self._unused_by_graphs = 0
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def __enter__(self) -> Self:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        self._before = torch.cuda.memory_allocated()
        held, used = _pools_of_graphs()
        self._unused_by_graphs = held - used
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # a lost context answers nothing any more
            torch.cuda.synchronize()
            self.allocated_bytes = torch.cuda.max_memory_allocated() - self._before
            reserved = torch.cuda.max_memory_reserved() - self._before
            self.reserved_bytes = reserved - self._unused_by_graphs


def _cuda_call(step: Step) -> _Taken:
    with CudaPeak() as peak:
        before = torch.cuda.memory_allocated()
        step()
    gc.collect()
    kept = torch.cuda.memory_allocated() - before
    return _Taken(peak.allocated_bytes, peak.reserved_bytes, kept)


def _pools_of_graphs() -> tuple[int, int]:
    """Bytes of the private pools of CUDA graphs, and how many of them are allocated."""
    pools = [
        segment
        for segment in torch.cuda.memory_snapshot()
        if tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)
    ]
    held, used = (sum(pool[key] for pool in pools) for key in ("total_size", "allocated_size"))
    return held, used


def _cpu_call(step: Step) -> _Taken:
    """The highest running sum of the allocator's events, as the profiler has them, and the last.

    The process's resident set would also count code, caches and whatever came before.
    """
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        step()
        gc.collect()
    results = profiler.profiler.kineto_results
    allocations = [
        event
        for event in results.events()
        if event.name() == "[memory]" and event.device_type() == DeviceType.CPU
    ]
    held = peak = 0
    for event in sorted(allocations, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return _Taken(peak, 0, held)
