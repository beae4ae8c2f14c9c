"""The bench of a practice: fresh models of a case, compiled as the case demands, and compared."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from compilegate.observe import error_text, failures, nested
from compilegate.observe.capture import compile_log, compiling, eager_calls
from compilegate.observe.compare import results
from compilegate.observe.compare.call_comparer import CallComparer
from compilegate.observe.device import device as device_of
from compilegate.observe.device import out_of_memory
from compilegate.observe.model.calls import PlannedCall, first_call
from compilegate.observe.model.random_draws import DrawRecording
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices.unavailable import StepUnavailableError, check_eager
from compilegate.records.call import Checked, Difference
from compilegate.records.practice import Practice, Step
from compilegate.records.request import Request
from compilegate.zoo.example import Call

#: The comparison of a call: of outputs, gradients and state.
Compared = tuple[Checked, Checked, Checked]

#: The most reasons of recompilations that a step keeps.
_REASONS = 3


class ProcessError(RuntimeError):
    """A process that a step started has failed.

    Args:
        message: What it wrote, or how it ended.
        held_by_others: See :class:`Step`.
    """

    def __init__(self, message: str, held_by_others: float | None = 0.0) -> None:
        super().__init__(message)
        self.held_by_others = held_by_others


@dataclass
class StepFacts:
    """What a step shows. The block of the step fills it in.

    Attributes:
        outputs: The comparison of outputs with eager's and the reference's.
        gradients: The comparison of gradients.
        state: The comparison of weights, buffers and inputs, and what else is exact.
    """

    outputs: Checked = field(default_factory=Checked)
    gradients: Checked = field(default_factory=Checked)
    state: Checked = field(default_factory=Checked)

    def add(self, made: Compared) -> None:
        """Add the comparison of a call."""
        self.outputs += made[0]
        self.gradients += made[1]
        self.state += made[2]

    def note_names(self, where: str, wanted: Collection[str], found: Collection[str]) -> None:
        """Add a difference, if the names are not those that are wanted, in any order."""
        lost = [name for name in wanted if name not in found]
        gained = [name for name in found if name not in wanted]
        self.note(where, "names", ", ".join(lost) or "no others", ", ".join(gained) or "no others")

    def note(self, where: str, what: str, eager: object, compiled: object) -> None:
        """Add an exact difference, if the two values differ."""
        if eager != compiled:
            found = Difference(where=where, what=what, eager=str(eager), compiled=str(compiled))
            self.state += Checked(differences=(found,))
        self.state += Checked(tensors=1)

    def require(self, where: str, wanted: str, found: str) -> None:
        """Add a difference, if something that eager has no part in is not as it must be."""
        if wanted != found:
            lacking = Difference(where=where, what="required", eager=wanted, compiled=found)
            self.state += Checked(differences=(lacking,))
        self.state += Checked(tensors=1)

    def require_graph(
        self, *, is_captured: bool, where: str = "captured", of: Iterable[object] = ()
    ) -> None:
        """Add a difference, if Dynamo has captured no graph of something.

        Args:
            is_captured: Whether there is a graph.
            where: What was compiled.
            of: The modules that were compiled in place or below a wrapper. PyTorch leaves some of
                its own there to eager: https://github.com/pytorch/pytorch/issues/140416
        """
        kinds = {type(module) for module in of}
        own = {f"nn.{each.__name__}" for each in kinds if each.__module__.startswith("torch.nn.")}
        why = f" (PyTorch may leave {', '.join(sorted(own))} to eager)" if own else ""
        self.require(where, "a graph", "a graph" if is_captured else f"no graph{why}")


@dataclass
class Bench:
    """Builds, compiles and compares the models of one practice, and keeps its steps.

    Attributes:
        builder: Builds the case's model again and again, each time with the same weights.
        request: Names the compiler backend and the seed.
        progress: Is given the stages and the times.
        reference: The reference results of the calls.
        draws: Whether a call draws random numbers.
        shared: What one practice of the case has computed, and another can use.
        steps: The steps so far.
        figures: What was measured so far, by a name that ends in its unit.
        at: The call that is compared; None for the first one.
    """

    builder: Builder
    request: Request
    progress: Progress
    reference: Reference
    draws: bool
    shared: dict[object, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    at: PlannedCall | None = None
    _graphs: int = 0

    def build(self) -> Subject:
        """Return a new eager model."""
        return self.builder()

    def build_compiled(self) -> Subject:
        """Return a new model that its first call compiles, with an empty compiler."""
        self.forget_compiled()
        compiled = self.builder()
        compiling.compile_subject(compiled, self.builder.model, self.request.backend)
        return compiled

    def forget_compiled(self) -> None:
        """Forget everything that was compiled, so that the next call of each model compiles."""
        self._graphs += compile_log.graphs()
        compile_log.reset()

    def compare(
        self,
        eager: Subject,
        compiled: Subject,
        *,
        weights: Mapping[str, torch.Tensor] | None = None,
    ) -> Compared:
        """Make the call on both sides, and compare outputs, gradients and state.

        Args:
            eager: The eager model.
            compiled: The compiled model.
            weights: The weights of both, by name, where they are not those of the case.

        Raises:
            StepUnavailableError: Eager raises.
            Exception: Compiled code raises.
        """
        builder, reference = self.builder, self.reference
        if weights is not None:
            builder = replace(builder, weights=weights)
            reference = Reference(builder)
        elif self.at is not None:  # the first call of another reference
            reference = self.shared.setdefault((Reference, self.at.index), Reference(builder))
        comparer = CallComparer(
            eager, compiled, reference, builder, self.progress.time, half=self.half
        )
        by_kernel = device_of(builder.case.device).draws_by_kernel
        recording = DrawRecording(is_needed=by_kernel) if self.draws else None
        comparer.start_from_eager()
        made = self.call_eager(eager, recording)
        made.recording = recording
        return comparer.of_call(self.planned, made, self.call(compiled))

    def compare_in(self, dtype: torch.dtype, eager: Subject, compiled: Subject) -> Compared:
        """Make the call on both sides in another dtype, and compare the outputs.

        Args:
            dtype: The dtype of both models, which floating inputs are cast to.
            eager: The eager model.
            compiled: The compiled model.

        Raises:
            StepUnavailableError: Eager raises.
            Exception: Compiled code raises.
        """
        made, result = self.call_eager(eager, dtype=dtype), self.call(compiled, dtype=dtype)
        truths = self.reference.results(self.planned)
        call = results.CallResults(made, result, truths, half=True)
        return results.compare_outputs(call), Checked(), Checked()

    def call_eager(
        self,
        eager: Subject,
        recording: DrawRecording | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> Result:
        """Make the call of an eager model, and undo what it does to buffers.

        Raises:
            StepUnavailableError: Eager raises.
        """
        call = self._arguments(eager, dtype)
        with keep_buffers(eager.buffers):
            made = eager_calls.call(eager, call, self.planned.index, recording)
        check_eager(made.error)
        return made

    def call(self, compiled: Subject, *, dtype: torch.dtype | None = None) -> Result:
        """Make the call of a compiled model, which compiles what is not compiled yet.

        What the call does to buffers is undone: the next one is compared with a new eager model.

        Raises:
            Exception: Compiled code raises.
        """
        call = self._arguments(compiled, dtype)
        compiling.mark_dynamic(compiled, call)
        with self.progress.spend("compile"), keep_buffers(compiled.buffers):
            result = compiled.call(call, self.planned.index)
        if result.error is not None:
            raise result.error
        return result

    def _arguments(self, subject: Subject, dtype: torch.dtype | None) -> Call:
        call = subject.prepare(self.planned)
        if dtype is not None:
            recast = nested.Recast(subject.case.device, dtype)
            call.args, call.kwargs = recast(call.args), recast(call.kwargs)
        return call

    @property
    def half(self) -> bool:
        """Whether the case computes in half precision, or in TF32."""
        return self.request.tf32 or self.builder.case.computes_in_half

    @property
    def planned(self) -> PlannedCall:
        """The call that is compared."""
        return self.at or first_call(self.builder.model.sizes(self.builder.case.device))

    @contextlib.contextmanager
    def step(self, name: str, *, needed: int | None = None) -> Iterator[StepFacts]:
        """Take a step. An error of the block is part of what the step shows.

        Args:
            name: What the block does, as a user would say it.
            needed: The most compilations that it needs; None if any number is right.

        Raises:
            Exception: The process cannot continue: memory ran out, or the GPU's context is lost.
        """
        facts = StepFacts()
        before = compile_log.compilations()
        raised = traceback = unavailable = ""
        held: float | None = 0.0
        self.progress.beat()
        try:
            yield facts
        except StepUnavailableError as error:
            unavailable = str(error)
        except Exception as error:
            if isinstance(error, ProcessError):
                held = error.held_by_others
            elif out_of_memory.is_fatal(error):
                raise
            raised = error_text.with_kind(error)
            traceback = failures.traceback_of(error)
        self.steps.append(
            Step(
                name=name,
                outputs=facts.outputs,
                gradients=facts.gradients,
                state=facts.state,
                compilations=None if needed is None else compile_log.compilations() - before,
                needed=needed,
                reasons=tuple(compile_log.reasons_of_recompilation(before)[:_REASONS]),
                raised=raised,
                traceback=traceback,
                held_by_others=held,
                unavailable=unavailable,
            )
        )

    @property
    def has_failed(self) -> bool:
        """Whether the last step did not come to its end, so that none can follow from it."""
        return bool(self.steps[-1].raised or self.steps[-1].unavailable)

    def practice(self) -> Practice:
        """Return the record of the steps so far."""
        self.forget_compiled()
        return Practice(steps=tuple(self.steps), graphs=self._graphs, figures=self.figures)


@contextlib.contextmanager
def keep_buffers(buffers: Callable[[], Mapping[str, torch.Tensor]]) -> Iterator[None]:
    """Give buffers the values back that they had before.

    Args:
        buffers: Returns them by name. A call may put other tensors in their place.
    """
    before = {name: buffer.clone() for name, buffer in buffers().items()}
    yield
    with torch.inference_mode():  # it may also write to what a call in this mode has made
        for name, buffer in buffers().items():
            value = before.get(name)
            if value is None or value.shape != buffer.shape or torch.equal(value, buffer):
                continue
            buffer.copy_(value)
