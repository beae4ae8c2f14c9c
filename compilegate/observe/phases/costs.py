"""What a call costs on both sides: time, memory and energy, at the first sizes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch

from compilegate.observe.capture import compile_log, compiling, eager_calls
from compilegate.observe.device import device as device_of
from compilegate.observe.device.protocol import Device, Step
from compilegate.observe.measure import energy, memory
from compilegate.observe.measure.alternation import AlternatingRounds, ParentConnection
from compilegate.observe.measure.empty_call import empty_call_ns
from compilegate.observe.measure.rounds import paired_rounds
from compilegate.observe.model.calls import PlannedCall, fixed_arguments, items_of
from compilegate.observe.model.snapshot import Snapshot
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.calls import CallsSeen
from compilegate.observe.phases.eager import FirstCall
from compilegate.observe.phases.progress import Progress
from compilegate.records.performance import Energy, Memory, Timing
from compilegate.records.request import Request
from compilegate.zoo.example import Call

#: The most types of objects that a record names.
_TYPES = 4


@dataclass(frozen=True)
class Steps:
    """One call of each side, prepared so that it can be repeated.

    Attributes:
        eager: One eager call.
        compiled: One compiled call.
        drop_gradients: Drops the gradients that calls of both sides leave.
        items: How many items a call processes; 0 where that is not known.
        device: Runs the calls.
    """

    eager: Step
    compiled: Step
    drop_gradients: Step
    items: int
    device: Device


def prepare(eager: Subject, compiled: Subject, planned: PlannedCall, device: Device) -> Steps:
    """Prepare a call of both sides, and drop the gradients of earlier ones."""
    sides = [(side, side.prepare(planned)) for side in (eager, compiled)]
    for _, call in sides:
        compiling.mark_dynamic(compiled, call)

    def step(side: Subject, call: Call, leaves: Sequence[torch.Tensor]) -> None:
        for leaf in leaves:
            leaf.grad = None
        side.step(call)

    def drop_gradients() -> None:
        for side, call in sides:
            side.forget_gradients(call)

    # Looking for the leaves takes as long as a call of a small model, so it is done once.
    steps = [functools.partial(step, *side, side[0].leaves(side[1])) for side in sides]
    drop_gradients()
    items = items_of(sides[0][1], planned.sizes)
    return Steps(steps[0], steps[1], drop_gradients, items, device)


def measure(
    steps: Steps,
    request: Request,
    seen: CallsSeen,
    progress: Progress,
    parent: ParentConnection | None,
) -> tuple[Timing | None, Memory | None, Energy | None]:
    """Measure time, memory and energy of the calls, as requested.

    Args:
        steps: The calls.
        request: Says what is wanted.
        seen: What the first call allocated.
        progress: Is given the stages and the time.
        parent: The connection to the parent, which lets processes alternate.
    """
    timing, memory_, energy_ = None, None, None
    has_energy = "energy" in request.wants and steps.device.has_sensors
    alone: Callable[[], AbstractContextManager[None]] = progress.alone
    if request.in_turns:  # the parent says when this process has the machine
        alone = progress.machine.on_all_processors
    with progress.spend("run"):
        if "time" in request.wants:
            progress.enter("time")
            # The first profile of a process loads the profiler: not while others stand still.
            steps.device.kernels_ns(steps.compiled, 1)
        with alone() if "time" in request.wants or has_energy else contextlib.nullcontext():
            if "time" in request.wants:
                timing = time_calls(steps, request, parent, progress)
            if has_energy:
                progress.enter("energy")
                with progress.alone():
                    energy_ = measure_energy(steps, request)
        if "memory" in request.wants:
            progress.enter("memory")
            peaks = measure_memory(steps, seen.compile_peak_bytes)
            memory_ = replace(peaks, first_call_kept_bytes=seen.first_call_kept_bytes)
    return timing, memory_, energy_


def time_calls(
    steps: Steps, request: Request, parent: ParentConnection | None, progress: Progress
) -> Timing:
    """Time both sides in paired rounds.

    Args:
        steps: The calls.
        request: Holds the seed, the threshold and the time budget, and whether the rounds
            alternate with those of another process.
        parent: The connection to the parent, which lets processes alternate.
        progress: Gets a beat before each round, and the time.
    """
    alternating = None
    if request.in_turns and parent is not None:
        alternating = AlternatingRounds(parent, steps.device, steps.drop_gradients)
    return paired_rounds(
        steps.eager,
        steps.compiled,
        device=steps.device,
        seed=request.seed,
        threshold=request.speedup_threshold,
        budget_s=request.timing_budget_s,
        items=steps.items,
        alternating=alternating,
        beat=progress.beat,
        shares_gpu=request.shares_gpu,
        alone=progress.alone,
    )


@contextlib.contextmanager
def stepping(
    first: FirstCall, compiled: Subject, planned: PlannedCall, device: Device
) -> Iterator[Steps]:
    """Yield the calls to measure; then restore the models' state.

    Args:
        first: The first call of eager.
        compiled: The compiled model.
        planned: The call that is measured.
        device: Runs it.
    """
    steps_weights = any(name.startswith("parameter ") for name in first.result.written)
    kept = [
        Snapshot(
            side.module,
            parameters=steps_weights,
            given=fixed_arguments(side.example),
            shared=side.recorder.shared,
        )
        for side in (first.eager, compiled)
    ]
    steps = prepare(first.eager, compiled, planned, device)
    if first.eager.compiles_itself:  # it does so again, with the backend that it names
        steps = replace(steps, eager=eager_calls.left_out()(steps.eager))
    yield steps
    for snapshot in kept:
        snapshot.put_back()


def add_empty_call(
    timing: Timing | None, compiled: Subject, request: Request, progress: Progress
) -> Timing | None:
    """Add the time of an empty compiled call, which Dynamo counts as one more compilation.

    Args:
        timing: The rounds of the case; None where nothing is timed.
        compiled: The compiled model, whose setting counts.
        request: Names the compiler backend.
        progress: Is given the time.
    """
    if timing is None:
        return None
    device = device_of(compiled.case.device)
    with progress.spend("run"):
        call_ns = empty_call_ns(compiled.case, device, request.backend, alone=progress.alone)
    return replace(timing, empty_call_ns=call_ns)


def measure_memory(steps: Steps, compile_peak_bytes: int) -> Memory:
    """Measure the peaks of both sides.

    Args:
        steps: The calls.
        compile_peak_bytes: The peak of the first call, which compiled the model.
    """
    steps.drop_gradients()  # or freeing the last gradients would be counted
    return memory.peak_memory(
        steps.eager,
        steps.compiled,
        device=steps.device,
        compile_peak_bytes=compile_peak_bytes,
    )


def count_left(steps: Steps, measured: Memory) -> Memory:
    """Add the Python objects and the bytes of the C library that a call leaves on each side.

    These calls are made after the capture was read: a model that compiles in each call reaches
    the recompile limit with them. What compiling leaves is not counted.

    Args:
        steps: The calls.
        measured: Their memory.
    """
    eager = memory.left_by(steps.eager)
    before = compile_log.compilations()
    compiled = memory.left_by(steps.compiled)
    if compile_log.compilations() != before:
        return measured
    return replace(
        measured,
        eager_kept_objects=eager.objects.total(),
        compiled_kept_objects=compiled.objects.total(),
        compiled_kept_types=dict(compiled.objects.most_common(_TYPES)),
        eager_kept_native_bytes=eager.native_bytes,
        compiled_kept_native_bytes=compiled.native_bytes,
        eager_kept_blocks=eager.blocks,
        compiled_kept_blocks=compiled.blocks,
    )


def measure_energy(steps: Steps, request: Request) -> Energy:
    """Measure the energy of a call on both sides, unless other cases run on the same GPU."""
    return energy.of_a_call(
        steps.eager, steps.compiled, device=steps.device, shares_gpu=request.shares_gpu
    )
