"""What memory holds at the peak of a call, eager and compiled, by PyTorch's profiler."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch._inductor.config
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from compilegate.observe.model.subject import Subject
from compilegate.records.part import Held
from compilegate.zoo.example import Call

#: Calls before the profile: the first ones compile, and fill caches.
_WARM = 2
#: How the name of Inductor's code of a whole graph begins: a hash follows, and no place.
_COMPILED = "## Call CompiledFxGraph"
#: As many rows are returned.
_MOST = 15


def at_peak(eager: tuple[Subject, Call], compiled: tuple[Subject, Call]) -> list[Held]:
    """Return what a call has allocated and not freed at its peak, the most bytes first.

    Blocks of one size that one operator allocated are counted together. What Inductor's code
    allocates without an operator has the name of what runs that code.

    Args:
        eager: A model, and a prepared call of it.
        compiled: The same model compiled, and a call of it.
    """
    with torch._inductor.config.patch({"cpp.enable_kernel_profile": True}):  # kernels have names
        sides = [_blocks(subject, call) for subject, call in (eager, compiled)]
    both = [
        Held(operator=operator, size=size, eager=sides[0][key], compiled=sides[1][key])
        for key in sides[0] | sides[1]
        for operator, size in [key]
    ]
    return sorted(both, key=lambda held: -held.size * max(held.eager, held.compiled))[:_MOST]


def _blocks(subject: Subject, call: Call) -> Counter[tuple[str, int]]:
    """Return how many blocks there are at the peak, by operator and bytes."""
    for _ in range(_WARM):
        _step(subject, call)
    on_gpu = subject.case.device == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    gc.collect()
    with profile(activities=activities, profile_memory=True) as seen:
        _step(subject, call)
    assert seen.profiler is not None
    tree = seen.profiler.kineto_results.experimental_event_tree()
    events = [
        event
        for event in _below(tree)
        if event.tag == _EventType.Allocation
        and event.extra_fields.device.type == subject.case.device
    ]
    return _at_peak(sorted(events, key=lambda event: event.start_time_ns))


def _at_peak(events: Iterable[Any]) -> Counter[tuple[str, int]]:
    held: dict[int, tuple[str, int]] = {}
    at_peak: Counter[tuple[str, int]] = Counter()
    now = most = 0
    for event in events:
        address, size = event.extra_fields.ptr, event.extra_fields.alloc_size
        if size > 0:
            held[address] = _operator(event), size
        elif held.pop(address, None) is None:
            continue  # it was allocated before the call
        now += size
        if now > most:
            most, at_peak = now, Counter(held.values())
    return at_peak


def _operator(event: Any) -> str:
    """Return the innermost operator that was running."""
    around = event.parent
    while around is not None and around.tag != _EventType.TorchOp:
        around = around.parent
    if around is None:
        return "outside of operators"
    return _next(event, around) if around.name.startswith(_COMPILED) else around.name


def _next(event: Any, around: Any) -> str:
    """Return what Inductor's code runs after an allocation: mostly what writes to it."""
    after = [
        each
        for each in around.children
        if each.tag == _EventType.TorchOp and each.start_time_ns >= event.start_time_ns
    ]
    first = min(after, key=lambda each: each.start_time_ns, default=None)
    return f"Inductor's code, {f'before {first.name}' if first else 'which names nothing'}"


def _below(events: Iterable[Any]) -> Iterator[Any]:
    waiting = [*events]
    while waiting:
        event = waiting.pop()
        yield event
        waiting += event.children


def _step(subject: Subject, call: Call) -> None:
    subject.step(call)
    subject.forget_gradients(call)
