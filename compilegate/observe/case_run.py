"""Observes one case, from building its model to the finished record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Literal

from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.capture.compile_log import CompileLog
from compilegate.observe.compare.call_comparer import CallComparer
from compilegate.observe.conditioning.signal import Treated
from compilegate.observe.device import device as device_of
from compilegate.observe.device import unsupported
from compilegate.observe.measure import memory
from compilegate.observe.measure.alternation import ParentConnection
from compilegate.observe.measure.shared_machine import SharedMachine
from compilegate.observe.model import weights
from compilegate.observe.model.calls import (
    first_call,
    planned_calls,
)
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases import (
    compile_work,
    costs,
    other_size,
    practising,
    random_numbers,
    warm_start,
)
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.calls import CallsSeen, PairedCalls
from compilegate.observe.phases.eager import FirstCall, make_first_call, reserve_memory
from compilegate.observe.phases.extremes import Extremes
from compilegate.observe.phases.probing import Probing
from compilegate.observe.phases.progress import Progress
from compilegate.observe.phases.recompiling import Recompiler
from compilegate.records.case import Case
from compilegate.records.observation import PROBING, Capture, Failure, Observation, Status
from compilegate.records.performance import CompileWork, Energy, Memory, OtherSize, Timing
from compilegate.records.practice import Practice
from compilegate.records.randomness import Randomness
from compilegate.records.request import Request, StageReport
from compilegate.zoo.registry import Model


class CaseRun:
    """Observes one case phase by phase, and keeps what each phase returned.

    An error may end any phase: :meth:`observation` then returns what was found before it.

    Args:
        model: The case's model.
        case: The case.
        request: What to observe.
        report: Called with each stage.
        parent: The connection to the parent process.

    Attributes:
        progress: The stage that was reached, and the time spent.
        builder: Builds the case's model.
        device: Runs the case.
        seen: What the calls showed.
    """

    def __init__(
        self,
        model: Model,
        case: Case,
        request: Request,
        report: StageReport,
        *,
        parent: ParentConnection | None = None,
    ) -> None:
        self.model, self.case, self.request = model, case, request
        shared = parent if request.account else None
        self.device = device_of(case.device)
        machine = SharedMachine(shared, request.account, request.processors)
        self.progress = Progress(report, machine, self.device.allocator)
        self.builder = Builder(model, case, request.seed, self.progress)
        self.builder.input_gradients = case.phase == "train"
        self.seen = CallsSeen()
        self._parent, self._keep = parent, parent.report if parent else _forget
        self._extremes = Extremes(parent, request.unprobed, request.unprobed_calls)
        self._vary = model.sizes(case.device)
        self._log = CompileLog(lowers=request.backend == "inductor", graphs=case.uses_cuda_graphs)
        self._fingerprint, self._raises, self._parameters, self._draws = "", "", 0, False
        self._signal: Literal["", "off", "as built", "treated"] = ""
        self._reference: Reference | None = None
        self._captured: Capture | None = None
        self._timing: Timing | None = None
        self._memory: Memory | None = None
        self._energy: Energy | None = None
        self._other_size: OtherSize | None = None
        self._probing: Probing | None = None
        self._randomness: Randomness | None = None
        self._compile_work: CompileWork | None = None
        self._practices: dict[str, Practice] = {}

    def observe(self, treated: Treated, reference_for: Callable[[bool], Reference]) -> None:
        """Observe everything that is wanted, in the order of ``records.observation.WANTS``.

        Args:
            treated: The weights that replace those of the recipe.
            reference_for: Returns the model's reference, given whether it draws random numbers.

        Raises:
            UnsupportedError: Eager cannot run the case on this device.
            Exception: What the model raises, or compiled code alone.
        """
        self.builder.weights = treated.state
        compiling.allow_tf32(self.request.tf32)
        first = make_first_call(self.builder, self.progress, self._vary, self.device)
        expected = first.eager.example.raises
        self._raises = expected.__name__ if expected else ""
        if not expected and (reason := unsupported.reason(first.result.error)):
            raise unsupported.UnsupportedError(reason) from first.result.error
        if self.request.eager_extremes:
            self._extremes.call_eager_alone(first, self._vary, self.device)
            return
        self._draws = first.result.draws
        if self.device.allocator is not None:  # the processor's memory is planned as a whole
            reserve_memory(first, self.progress)
        with compiling.configured(first.eager.example.config):
            self._observe_compiled(first, treated, reference_for(self._draws))

    def _observe_compiled(self, first: FirstCall, treated: Treated, reference: Reference) -> None:
        """Compile the model, and observe everything that is wanted."""
        wants = self.request.wants
        compiled = self._build_compiled(first, treated)
        calls = self._capture(first, compiled, reference)
        # One search for garbage before all blocks that measure memory, not one before each.
        with memory.quick_collection() if "memory" in wants else nullcontext():
            if {"time", "memory", "energy"} & set(wants) and first.result.error is None:
                with costs.stepping(first, compiled, first_call(self._vary), self.device) as steps:
                    self._timing, self._memory, self._energy = costs.measure(
                        steps, self.request, self.seen, self.progress, self._parent
                    )
            if "vary" in wants:
                calls.vary(self._vary, self._memory.eager_peak_bytes if self._memory else 0)
            self._captured = self._log.capture()  # what follows compiles again
            if self._memory is not None:
                with costs.stepping(first, compiled, first_call(self._vary), self.device) as steps:
                    self._memory = costs.count_left(steps, self._memory)
            measured = (first, compiled, self.seen, self._vary)
            self._other_size = other_size.observe(
                *measured, request=self.request, progress=self.progress
            )
        if {*PROBING}.intersection(wants) and first.result.error is None:
            self._probing = Probing(calls, self.builder, self.progress, self._extremes)
            self._probing.make_wanted(wants, first_call(self._vary).sizes)
            self.seen.ran_out_of_memory |= self._probing.ran_out_of_memory
        again = Recompiler(compiled, self.model, self.request, self.progress)
        call = first_call(self._vary)
        if "random" in wants and self._draws:
            self._randomness = random_numbers.observe(first.eager, again, call)
        if "start" in wants and (cold := self.seen.compile_time):
            self.seen.compile_time = warm_start.observe(again, call, cold)
        self._timing = costs.add_empty_call(self._timing, compiled, self.request, self.progress)
        if "compile_work" in wants and first.result.error is None:
            self._compile_work = compile_work.count(again, call)
        if first.result.error is None:
            practising.observe(
                *(self.builder, self.request, self.progress, reference, self._practices),
                draws=self._draws,
                keep=lambda: self._keep(self.observation("completed", None)),
            )

    def _build_compiled(self, first: FirstCall, treated: Treated) -> Subject:
        """Build the model that will be compiled, and describe its weights."""
        self.progress.enter("build")
        compiled = self.builder()
        weights.refuse_others(first.weights, weights.sample(compiled), first.result.written)
        self._signal = treated.description if first.eager.example.signal else "off"
        self._fingerprint = first.eager.fingerprint()
        self._parameters = sum(p.numel() for p in first.eager.parameters().values())
        return compiled

    def _capture(self, first: FirstCall, compiled: Subject, reference: Reference) -> PairedCalls:
        """Compile the model, and make the calls at the first sizes on both sides."""
        half = self.request.tf32 or self.case.computes_in_half
        eager, time_spent = first.eager, self.progress.time
        comparison = CallComparer(eager, compiled, reference, self.builder, time_spent, half=half)
        compiling.draw_as_eager(self.request.backend)
        compile_log.reset()
        self.progress.enter("compile")
        compiling.compile_subject(compiled, self.model, self.request.backend)
        self._reference = reference
        calls = PairedCalls(
            eager,
            compiled,
            comparison,
            log=self._log,
            progress=self.progress,
            device=self.device,
            records_draws=first.records_draws and (self.device.draws_by_kernel or self._draws),
            compiles_alone=self.request.compiles_alone,
        )
        self.seen = calls.seen
        for planned in planned_calls(eager.example, self._vary, self.case.device):
            if planned.index == 0:
                calls.call_compiled(planned, first.result)
            else:
                calls.call(planned)
        if not (self.seen.eager_returned or self._raises or self._log.has_compiled()):
            self.progress.enter("eager")  # the model is called wrongly
            assert first.result.error is not None
            raise first.result.error
        return calls

    def observation(self, status: Status, failure: Failure | None) -> Observation:
        """Return the record of the observation so far."""
        capture = self._captured or (self._log.capture() if self._reference else None)
        return Observation(
            case=self.case.id,
            status=status,
            failure=failure,
            wants=self.request.wants,
            backend=self.request.backend,
            cold=self.request.cold,
            seed=self.request.seed,
            fingerprint=self._fingerprint,
            parameters=self._parameters,
            reference="" if self._reference is None else self._reference.kind,
            calls=tuple(self.seen.calls),
            probes=tuple(self._probing.facts) if self._probing else (),
            unprobed=tuple(self._probing.left_out) if self._probing else (),
            unsampled=tuple(self.seen.unsampled),
            capture=capture,
            compile_time=self.seen.compile_time,
            timing=self._timing,
            memory=self._memory,
            energy=self._energy,
            other_size=self._other_size,
            tf32=self.request.tf32,
            draws=self._draws,
            randomness=self._randomness,
            compile_work=self._compile_work,
            practices=self._practices,
            signal=self._signal,
            input_gradients=self.builder.input_gradients,
            written_inputs=self.builder.written_inputs,
            raises=self._raises,
            left_out=self.seen.left_out,
            spent_s=self.progress.spent(),
        )


def _forget(so_far: object) -> None:
    """Keep nothing: no other process waits for an answer."""
