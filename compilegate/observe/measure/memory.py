"""The memory of a call above what is held before it: the allocator's peaks, and what is left."""

from __future__ import annotations

import contextlib
import gc
import operator
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import torch
from torch._C._autograd import DeviceType

from compilegate.observe.device.protocol import Allocator, Device, Step
from compilegate.observe.measure import native_memory
from compilegate.records.performance import Memory

#: How many calls are measured. The first shows the peaks; all show what a call leaves.
_CALLS = 3
#: How many more show whether objects that they left are left by every call.
_FURTHER_CALLS = 25
#: Fewer bytes of the C library may be the rounding of its blocks, or what its threads cache. Fewer
#: blocks of Python's allocator may be those of a free list.
_FEW_BYTES, _FEW_BLOCKS = 16384, 16


class _Bytes(NamedTuple):
    """The memory of one call, or the summary of several."""

    allocated: int
    reserved: int
    kept: int
    unused: int | None = None


def peak_memory(eager: Step, compiled: Step, *, device: Device, compile_peak_bytes: int) -> Memory:
    """Return the peaks of an eager and a compiled call, and the memory that calls leave.

    Args:
        eager: One eager call.
        compiled: One compiled call.
        device: Runs them.
        compile_peak_bytes: The peak of the first call, which compiled the model.
    """
    with quick_collection():
        of_eager, of_compiled = (
            _summary([_call(step, device) for _ in range(_CALLS)]) for step in (eager, compiled)
        )
    # CUDA graphs keep the memory that they were recorded in between calls. It belongs to compiled
    # code, although it is held before the call.
    graphs, _ = device.allocator.graph_pools() if device.allocator else (0, 0)
    return Memory(
        eager_peak_bytes=of_eager.allocated,
        compiled_peak_bytes=of_compiled.allocated + graphs,
        eager_reserved_bytes=of_eager.reserved,
        compiled_reserved_bytes=of_compiled.reserved + graphs,
        graphs_bytes=graphs,
        compile_peak_bytes=compile_peak_bytes,
        eager_kept_bytes=of_eager.kept,
        compiled_kept_bytes=of_compiled.kept,
        compiled_unused_bytes=of_compiled.unused,
    )


def held_bytes(call: Step, device: Device) -> int:
    """Return the bytes that what a call returns keeps alive: an output holds its graph.

    Args:
        call: The call. An earlier one must have filled its caches.
        device: Runs it.
    """
    returned: list[object] = []
    with quick_collection():
        return _call(lambda: returned.append(call()), device).kept


def peak_bytes(step: Step, device: Device) -> int:
    """Return the peak of a call above what is held before it, in bytes."""
    with quick_collection():
        return _call(step, device).allocated


class Left(NamedTuple):
    """What a call leaves after the garbage collector has run.

    Attributes:
        objects: Python objects by type. Numbers and strings are not counted.
        native_bytes: Bytes that the C library has given out: to tensors on the CPU, to C++ and to
            large Python objects.
        blocks: Python objects of up to 512 bytes, with numbers and strings, whatever their type.
    """

    objects: Counter[str]
    native_bytes: int
    blocks: int


def left_by(step: Step) -> Left:
    """Return what a call leaves.

    Of several calls it is the one in the middle: some fill a cache. What the first calls leave may
    be part of such a cache, which further calls show.
    """
    for calls in (_CALLS, _FURTHER_CALLS):
        left = _left_by(step, calls)
        few = left.native_bytes < _FEW_BYTES and left.blocks < _FEW_BLOCKS
        if not left.objects and few:
            break
    return left


def _left_by(step: Step, calls: int) -> Left:
    """Return what the call in the middle of several leaves, by the number of objects, and bytes."""
    seen = [Counter[str]() for _ in range(calls + 1)]  # made before: they are objects, too
    held, blocks = [], []
    with quick_collection():
        for counted in seen:
            before, allocated = native_memory.given_out(), sys.getallocatedblocks()
            step()
            gc.collect()
            blocks.append(sys.getallocatedblocks() - allocated)
            held.append(native_memory.given_out() - before)
            counted.update(type(kept).__qualname__ for kept in gc.get_objects())
    grown = [(after.total() - before.total(), after - before) for before, after in pairwise(seen)]
    total, by_type = sorted(grown, key=operator.itemgetter(0))[(len(grown) - 1) // 2]
    native_bytes, small = (max(statistics.median_low(each[1:]), 0) for each in (held, blocks))
    return Left(by_type if total > 0 else Counter(), native_bytes, small)


@dataclass
class _Blocks:
    """How many blocks of :func:`quick_collection` the process is in."""

    entered: int = 0


_BLOCKS = _Blocks()


@contextlib.contextmanager
def quick_collection() -> Iterator[None]:
    """Restrict the garbage collector to objects made in the block, which takes no time.

    The search before it takes 0.2 s with torch imported. In a block, another one has little to
    search.
    """
    gc.collect()
    gc.freeze()
    _BLOCKS.entered += 1
    try:
        yield
    finally:
        _BLOCKS.entered -= 1
        if not _BLOCKS.entered:
            gc.unfreeze()


def _summary(calls: Sequence[_Bytes]) -> _Bytes:
    """Return the first call's peaks, and the median of the memory that calls leave.

    Once in a while a call fills a cache or empties one, which the median leaves out.
    """
    return calls[0]._replace(kept=statistics.median_low(call.kept for call in calls))


class AllocatorPeak:
    """The peaks of a ``with`` block, above the memory allocated at its start.

    The constructor collects garbage: what is freed in the middle of the block would hide as much of
    its peak. It also releases unused blocks, which would otherwise be reserved already.

    Args:
        device: Runs the block.
        allocator: The device's.

    Attributes:
        allocated_bytes: Most bytes allocated.
        kept_bytes: Bytes of tensors that are still there at its end, without rounding.
        reserved_bytes: Most bytes that the allocator had taken from the device, without what graphs
            held where the block began.
        unused_bytes: How many of them were reserved at its start, and not allocated: gaps between
            living tensors, which earlier calls left.
    """

    def __init__(self, device: Device, allocator: Allocator) -> None:
        self.allocated_bytes = self.kept_bytes = self.reserved_bytes = self.unused_bytes = 0
        self._device, self._allocator = device, allocator
        self._before = self._requested = self._unused_by_graphs = 0
        gc.collect()
        device.synchronize()
        allocator.release_unused()

    def __enter__(self) -> Self:
        self._device.synchronize()
        self._allocator.reset_peaks()
        self._before = self._allocator.allocated()
        self._requested = self._allocator.requested()
        held, used = self._allocator.graph_pools()
        self._unused_by_graphs = held - used
        gaps = self._allocator.reserved() - self._before
        self.unused_bytes = gaps - self._unused_by_graphs
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # after an error the device may be lost, and answer nothing
            self._device.synchronize()
            self.allocated_bytes = self._allocator.peak_allocated() - self._before
            self.kept_bytes = self._allocator.requested() - self._requested
            reserved = self._allocator.peak_reserved() - self._before
            self.reserved_bytes = reserved - self._unused_by_graphs


def _call(step: Step, device: Device) -> _Bytes:
    if device.allocator is None:
        return _profiled_call(step)
    return _call_with_allocator(step, device, device.allocator)


def _call_with_allocator(step: Step, device: Device, allocator: Allocator) -> _Bytes:
    with AllocatorPeak(device, allocator) as peak:
        before = allocator.requested()
        step()
    gc.collect()
    kept = allocator.requested() - before
    return _Bytes(peak.allocated_bytes, peak.reserved_bytes, kept, peak.unused_bytes)


def _profiled_call(step: Step) -> _Bytes:
    """Return the highest running sum of the profiler's allocation events, and the last one.

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
    return _Bytes(peak, 0, held)
