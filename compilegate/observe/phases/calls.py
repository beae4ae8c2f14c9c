"""The calls of a case: each is made in eager and in compiled code, and the two are compared."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch

from compilegate.observe import error_text
from compilegate.observe.capture import compile_log, compiling, guard_inputs, source_place
from compilegate.observe.capture.compile_log import CompileLog
from compilegate.observe.compare import results
from compilegate.observe.compare.call_comparer import CallComparer
from compilegate.observe.device import out_of_memory
from compilegate.observe.device.protocol import Device
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.measure.memory import AllocatorPeak
from compilegate.observe.model.calls import PlannedCall, varied_calls
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.observe.model.result import Result
from compilegate.observe.model.snapshot import Snapshot
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.eager import call_eager
from compilegate.observe.phases.progress import Progress
from compilegate.observe.wall_clock import WallClock
from compilegate.records.call import CallFacts, name_of_call, name_of_probe
from compilegate.records.performance import CompileTime
from compilegate.zoo.example import Call

#: How many times as much memory as in a case's own number format the reference takes.
_REFERENCE_MEMORY = {"f32": 2, "bf16": 4, "f16": 4}


@dataclass
class CallsSeen:
    """The results of the calls so far.

    Attributes:
        calls: One entry for each call that was compared.
        compile_time: The compile time of the first call; None before it.
        compile_peak_bytes: The most memory that the first call allocated; 0 on CPU.
        first_call_kept_bytes: What was allocated after it, above its start; None on CPU.
        eager_returned: Whether any eager call returned.
        raised_alone: The call in which compiled code raised and eager did not.
        raised_in_probe: Whether compiled code raised alone in a probing call.
        left_out: Why no call was overlapped by another; empty if one was.
        ran_out_of_memory: Whether a call that was to overlap another found too little memory.
        unsampled: Why eager could not make a call again to show its noise, each reason once.
    """

    calls: list[CallFacts] = field(default_factory=list)
    compile_time: CompileTime | None = None
    compile_peak_bytes: int = 0
    first_call_kept_bytes: int | None = None
    eager_returned: bool = False
    raised_alone: str = ""
    raised_in_probe: bool = False
    left_out: str = ""
    ran_out_of_memory: bool = False
    unsampled: Mapping[str, None] = field(default_factory=dict)


class PairedCalls:
    """Makes calls on both sides, and keeps the results.

    Args:
        eager: The eager model.
        compiled: The compiled one, not called yet.
        comparison: Compares the results of both.
        log: Follows what compiled code compiles.
        progress: Is given stages and times.
        device: Runs the calls.
        records_draws: Whether to record the random numbers that eager draws.
        compiles_alone: Whether nothing else of the session may run during the first compilation.

    Attributes:
        eager: The eager model.
        compiled: The compiled model.
        comparison: Compares the results of both.
        seen: The results of the calls so far.
    """

    def __init__(
        self,
        eager: Subject,
        compiled: Subject,
        comparison: CallComparer,
        *,
        log: CompileLog,
        progress: Progress,
        device: Device,
        records_draws: bool,
        compiles_alone: bool = False,
    ) -> None:
        self.seen = CallsSeen(unsampled=comparison.sampler.failed)
        self.eager, self.compiled = eager, compiled
        self.comparison, self._log = comparison, log
        self._progress, self._device = progress, device
        self._records_draws, self._compiles_alone = records_draws, compiles_alone

    def call(self, planned: PlannedCall) -> None:
        """Make a call on both sides, and compare the results."""
        self.call_compiled(planned, self.call_eager(planned))

    def vary(self, sizes: dict[str, tuple[int, ...]], eager_peak_bytes: int) -> None:
        """Make the calls at other sizes.

        Args:
            sizes: The sizes of each named dimension.
            eager_peak_bytes: The most memory that an eager call took; 0 if it was not measured.
        """
        peak_bytes = max(self.seen.compile_peak_bytes, eager_peak_bytes)
        for planned in varied_calls(self.eager.example, sizes, self.eager.case):
            self._progress.enter("vary")
            with self._timing_compiling(planned):
                if planned.overlaps:
                    self.call_overlapping(planned, peak_bytes)
                else:
                    self.call(planned)

    @contextlib.contextmanager
    def _timing_compiling(self, planned: PlannedCall) -> Iterator[None]:
        """Keep the seconds of compiling of a later call, if no other had more."""
        others, clock = OtherProcesses(self._progress.machine.stopped_s), WallClock()
        before = compile_log.seconds()
        yield
        taken_s, so_far = compile_log.seconds() - before, self.seen.compile_time
        if so_far is not None and taken_s > so_far.other_s and not clock.was_set:
            self.seen.compile_time = replace(
                so_far,
                other_call=name_of_call(planned.index, planned.sizes),
                other_s=taken_s,
                other_busy=others.share(),
            )

    def call_eager(self, planned: PlannedCall) -> Result:
        """Make a call in eager. An error that it raises is part of the result."""
        recording = None
        if self._records_draws:
            recording = DrawRecording(is_needed=self._device.draws_by_kernel)
        return call_eager(planned, self.eager, self._progress, recording)

    def wait(self) -> None:
        """Wait for the device.

        Raises:
            torch.AcceleratorError: A kernel has failed, and the GPU's context is lost.
        """
        self._device.synchronize()

    def call_overlapping(self, planned: PlannedCall, peak_bytes: int) -> None:
        """Make two overlapping calls, if eager can and the device has memory for both.

        Eager cannot where a forward writes to what an earlier one saved for its backward.

        Args:
            planned: The call.
            peak_bytes: The most memory that a single call took so far.
        """
        if not self._has_room_for_two(peak_bytes):
            self.seen.left_out = "two calls might not fit into the GPU's memory"
            return
        before = [
            Snapshot(side.module, parameters=True, shared=side.recorder.shared)
            for side in (self.eager, self.compiled)
        ]
        try:
            made = self.call_eager(planned)
            if made.error is None:
                self.call_compiled(planned, made)
                return
            self.seen.left_out = f"in eager, {error_text.with_kind(made.error)}"
        except Exception as error:
            cause = out_of_memory.find(error)
            if cause is None:
                raise
            self.seen.ran_out_of_memory = True
            self.seen.left_out = error_text.with_kind(cause)
        for snapshot in before:
            snapshot.put_back()

    def _has_room_for_two(self, peak_bytes: int) -> bool:
        """Return whether saved tensors of two reference calls fit into memory."""
        allocator = self._device.allocator
        if allocator is None:
            return True
        free, _ = allocator.free_and_total()
        free += allocator.reserved() - allocator.allocated()
        return 2 * _REFERENCE_MEMORY[self.eager.case.computes_in] * peak_bytes < free

    def call_compiled(self, planned: PlannedCall, made: Result) -> None:
        """Make a call in compiled code, and compare it with eager's.

        Args:
            planned: The call.
            made: What it did in eager.
        """
        self.seen.eager_returned |= made.error is None
        with self._progress.spend("prepare"):
            call = self.compiled.prepare(planned)
            guarded = guard_inputs.of(
                call, planned.index, made.before, swaps_weights=made.swaps_weights
            )
            compiling.mark_dynamic(self.compiled, call)
        self._device.synchronize()  # an error of eager's kernels shows here
        try:
            result = self._run_compiled(planned, call)
        except torch.AcceleratorError:
            if made.error is None:
                self.seen.raised_alone = _described(planned)
            raise
        self._log.after_call(planned.index, planned.sizes)
        if result.error is not None and made.error is None:
            self.seen.raised_alone = _described(planned)
            raise result.error
        outputs, gradients, state = self.comparison.of_call(planned, made, result)
        self.seen.calls.append(
            CallFacts(
                sizes=planned.sizes,
                numbers=guarded.numbers,
                rest=guarded.rest,
                blocks=made.blocks,
                outputs=outputs,
                gradients=gradients,
                state=state,
                raised=results.raised_alike(made, result),
                raised_at=str(source_place.of_error(made.error) or ""),
                overflowed=results.overflowed(made, result),
                overlaps=planned.overlaps,
            )
        )

    def _run_compiled(self, planned: PlannedCall, call: Call) -> Result:
        """Call compiled code; measure time and memory of the first call, which compiles it."""
        if self.seen.compile_time is not None:
            self._progress.enter_call("call")
            with self._progress.spend("compile"):
                return self.compiled.call(call, planned.index)
        self._progress.enter_call("compile")
        with self._progress.alone() if self._compiles_alone else contextlib.nullcontext():
            return self._time_compiling(planned, call)

    def _time_compiling(self, planned: PlannedCall, call: Call) -> Result:
        allocator = self._device.allocator
        peak = AllocatorPeak(self._device, allocator) if allocator else None
        others, clock = OtherProcesses(self._progress.machine.stopped_s), WallClock()
        start = time.perf_counter()
        with self._progress.spend("compile"):
            result = self.compiled.call(call, planned.index, around=peak)
        taken_s = time.perf_counter() - start
        if peak is not None:
            self.seen.compile_peak_bytes = peak.allocated_bytes
            self.seen.first_call_kept_bytes = peak.kept_bytes
        self.seen.compile_time = compile_log.compile_time(
            taken_s, others.share(), clock_was_set=clock.was_set
        )
        return result


def probe_compiled(calls: PairedCalls, planned: PlannedCall, call: Call) -> Result:
    """Make a probing call in compiled code, and wait for it.

    Args:
        calls: Made the calls before.
        planned: The call.
        call: Its arguments.

    Raises:
        torch.AcceleratorError: Compiled code alone has lost the GPU.
    """
    assert planned.probe is not None
    try:
        made = calls.compiled.call(call, planned.index)
        calls.wait()
    except torch.AcceleratorError:
        calls.seen.raised_alone = name_of_probe(planned.probe.name, planned.sizes)
        raise
    return made


def _described(planned: PlannedCall) -> str:
    """Return the name of a call, and what it has that calls mostly have not."""
    name = name_of_call(planned.index, planned.sizes)
    return f"{name}, another forward before its backward" if planned.overlaps else name
