"""The eager calls of a case. The first one shows in which way the model can be observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import torch

from compilegate.observe import error_text
from compilegate.observe.capture import eager_calls
from compilegate.observe.capture.block_inputs import BlockInputs
from compilegate.observe.device.protocol import Device
from compilegate.observe.model import weights
from compilegate.observe.model.calls import PlannedCall, first_call
from compilegate.observe.model.forward import SelectorError
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.records.memory_needs import needed_bytes


@dataclass(frozen=True)
class FirstCall:
    """The first eager call of a case.

    Attributes:
        eager: The model that was called.
        result: What the call did.
        weights: A sample of the model's weights, taken before the call.
        records_draws: Whether the random numbers that the model draws can be recorded.
        peak_bytes: The most bytes of the device that the call allocated; 0 without an allocator.
    """

    eager: Subject
    result: Result
    weights: dict[str, torch.Tensor]
    records_draws: bool
    peak_bytes: int


class ExpectationError(Exception):
    """Eager does not raise what ``Example.raises`` names: a mistake in the recipe."""


def make_first_call(
    builder: Builder, progress: Progress, vary: Mapping[str, tuple[int, ...]], device: Device
) -> FirstCall:
    """Build the eager model and call it once, in the first way in which the model does not raise.

    The ways differ in two respects. Inputs that the model changes in place cannot be
    differentiated. Random numbers cannot always be recorded: it prevents the gradient of
    ``torch.cond``. An error in every way is the model's own, and compiled code must raise it, too.

    Args:
        builder: Builds the model. It is left with the settings that the call was made with.
        progress: Is given the stages.
        vary: The sizes of what may vary, by name.
        device: Runs the model.
    """
    allocator = device.allocator

    def attempt(*, records: bool) -> FirstCall:
        progress.enter("build")
        eager = builder()
        sample = weights.sample(eager)
        recording = DrawRecording(is_needed=device.draws_by_kernel) if records else None
        before = 0
        if allocator is not None:
            allocator.reset_peaks()
            before = allocator.allocated()
        result = call_eager(first_call(dict(vary)), eager, progress, recording)
        peak_bytes = allocator.peak_allocated() - before if allocator is not None else 0
        return FirstCall(eager, result, sample, records, peak_bytes)

    trains = builder.case.phase == "train"
    for records, gradients in product((True, False), (True, False) if trains else (False,)):
        builder.input_gradients = gradients
        found = attempt(records=records)
        if found.result.error is None or found.eager.example.raises is not None:
            break
    written = tuple(sorted(n for n in found.result.written if n.startswith("input")))
    if trains and not builder.input_gradients and written:
        builder.input_gradients, builder.written_inputs = True, written
        again = attempt(records=found.records_draws)
        if again.result.error is None:
            return again
        builder.input_gradients, builder.written_inputs = False, ()
    return found


def reserve_memory(first: FirstCall, progress: Progress) -> None:
    """Ask for the memory of the device that a case needs, by that of its first call.

    Args:
        first: The first call.
        progress: Waits for it.
    """
    parameters = sum(parameter.numel() for parameter in first.eager.parameters().values())
    device = first.eager.case.device
    progress.reserve(needed_bytes(device, parameters=parameters, peak_bytes=first.peak_bytes))


def call_eager(
    planned: PlannedCall, eager: Subject, progress: Progress, recording: DrawRecording | None
) -> Result:
    """Call the eager model; its error, if it raises one, is part of the result.

    Args:
        planned: The call.
        eager: The model.
        progress: Is given the stage and the time.
        recording: Records the random numbers that the call draws.

    Raises:
        SelectorError: The recipe cannot pick what is judged from the output.
        ExpectationError: The call does not raise what the recipe says.
    """
    progress.enter_call("eager")
    with progress.spend("prepare"):
        call = eager.prepare(planned)
    given = BlockInputs(eager)
    with progress.spend("run"):
        result = eager_calls.call(eager, call, planned.index, recording, given)
    result.blocks = tuple(given.numbers)
    if isinstance(result.error, SelectorError):
        raise result.error
    expected = eager.example.raises
    if expected is not None and not isinstance(result.error, expected):
        seen = f"raised {error_text.with_kind(result.error)}" if result.error else "returned"
        raise ExpectationError(
            f"raises of Example names {expected.__name__}, but eager {seen}"
        ) from result.error
    result.recording = recording
    return result
