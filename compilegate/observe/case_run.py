"""One case, from building its model to the record of what was seen."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Literal

import torch
import torch._inductor.config

from compilegate.observe import error_text
from compilegate.observe.capture import compile_log, compiling, guard_inputs
from compilegate.observe.compare import randomness, results
from compilegate.observe.compare.calls import Comparison
from compilegate.observe.conditioning.signal import Treated
from compilegate.observe.device import out_of_memory
from compilegate.observe.measure import energy, memory
from compilegate.observe.measure.alternation import Line, Turns
from compilegate.observe.measure.contention import OtherLoad
from compilegate.observe.measure.rounds import paired_rounds
from compilegate.observe.model import weights
from compilegate.observe.model.calls import (
    PlannedCall,
    first_call,
    fixed_arguments,
    items_of,
    planned_calls,
    varied_calls,
)
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.random_draws import Tape
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.result import Result
from compilegate.observe.model.snapshot import Snapshot
from compilegate.observe.model.subject import SelectorError, Subject
from compilegate.observe.time_spent import Ledger
from compilegate.records.call import CallFacts, name_of_call
from compilegate.records.case import Case
from compilegate.records.observation import Capture, Failure, Observation, Randomness, Stage, Status
from compilegate.records.performance import CompileTime, Energy, Memory, Timing
from compilegate.records.request import Request, StageReport
from compilegate.zoo.example import Call
from compilegate.zoo.registry import Model

#: How many times as much memory as in a case's own precision the reference takes.
_DOUBLE = {"f32": 2, "bf16": 4, "f16": 4}


class CaseRun:
    """One case from build to record."""

    def __init__(
        self,
        model: Model,
        case: Case,
        request: Request,
        report: StageReport,
        treated: Treated | None = None,
        *,
        line: Line | None = None,
    ) -> None:
        self.model, self.case, self.request = model, case, request
        self.treated = treated or Treated()
        self.ledger = Ledger()
        self.stage: Stage = "build"
        #: The call in which compiled code raised and eager did not.
        self.raised_alone = ""
        #: Whether a call that was to overlap another found too little memory.
        self.ran_out_of_memory = False
        self._left_out = ""
        self._report = report
        self._line = line
        self._calls: list[CallFacts] = []
        self._recorder = compile_log.Recorder(
            lowers=request.backend == "inductor", graphs=self.case.uses_cuda_graphs
        )
        self._compile_time: CompileTime | None = None
        self._timing: Timing | None = None
        self._memory: Memory | None = None
        self._energy: Energy | None = None
        self._compile_peak_bytes = 0
        self._fingerprint, self._parameters = "", 0
        self._reference: Reference | None = None
        self._input_gradients = case.phase == "train"
        self._written_inputs: tuple[str, ...] = ()
        self._records = True
        self._captured = False
        self._capture: Capture | None = None
        self._draws: bool | None = None  # not known before the first call
        self._eager_returned = False
        self._signal: Literal["", "off", "as built", "treated"] = ""
        self._randomness: Randomness | None = None
        self._started = time.perf_counter()

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self._report(stage)

    def missing_package(self) -> Failure | None:
        """Why the model cannot be built here: its library is absent or broken."""
        if self.model.requires is None:
            return None
        try:
            with self.ledger.spend("import"):
                importlib.import_module(self.model.requires)
        except Exception as error:
            reason = f"{self.model.requires} cannot be imported: {error}"
            return Failure(stage="build", kind=type(error).__name__, message=reason)
        return None

    def build(self, lifting: Lifting | None = None) -> Subject:
        """The model, anew; in the precision of a lifting if one is given."""
        with self.ledger.spend("build"):
            return Subject(
                self.model,
                self.case,
                self.request.seed,
                lifting=lifting,
                input_gradients=self._input_gradients,
                written_inputs=self._written_inputs,
                weights=self.treated.state,
            )

    def observe(self, reference_for: Callable[[bool], Reference]) -> None:
        """Everything that is wanted, in the order of :data:`compilegate.records.observation.WANTS`.

        Args:
            reference_for: The reference of a model, given whether it draws random numbers.
        """
        vary = self.model.sizes(self.case.device)
        device = self.case.device
        compiling.allow_tf32(self.request.tf32)
        eager, first, built = self._first_eager_call(vary)
        self._draws = first.draws
        reference = reference_for(first.draws)
        self._enter("build")
        compiled = self.build()
        weights.refuse_others(built, weights.sample(compiled), first.written)
        if eager.example.signal:
            self._signal = "treated" if self.treated.changed else "as built"
        else:
            self._signal = "off"
        self._fingerprint = eager.fingerprint()
        self._parameters = sum(p.numel() for p in eager.parameters().values())
        half = self.request.tf32 or self.case.precision != "f32"
        comparison = Comparison(eager, compiled, reference, self.build, self.ledger, half=half)
        torch._inductor.config.fallback_random = True  # so that compiled code draws as eager does
        compile_log.reset()
        self._enter("compile")
        compiling.compile_subject(compiled, self.model, self.request.backend)
        self._captured = True
        self._reference = reference
        for planned in planned_calls(eager.example, vary, device):
            made = first if planned.index == 0 else self._call_eager(planned, eager)
            self._compare_call(planned, made, compiled, comparison)
        self._refuse_what_only_raises(first)
        if {"time", "memory", "energy"} & set(self.request.wants) and first.error is None:
            steps_weights = any(name.startswith("parameter ") for name in first.written)
            kept = [
                Snapshot(side.module, parameters=steps_weights, given=fixed_arguments(side.example))
                for side in (eager, compiled)
            ]
            self._measure(eager, compiled, first_call(vary))
            for snapshot in kept:
                snapshot.put_back()
        if "vary" in self.request.wants:
            for planned in varied_calls(eager.example, vary, self.case):
                self._enter("vary")
                if planned.overlaps:
                    self._compare_overlapping(planned, eager, compiled, comparison)
                else:
                    made = self._call_eager(planned, eager)
                    self._compare_call(planned, made, compiled, comparison)
        if "random" in self.request.wants and self._draws:
            self._observe_randomness(eager, compiled, first_call(vary))

    def _first_eager_call(
        self, vary: dict[str, tuple[int, ...]]
    ) -> tuple[Subject, Result, dict[str, torch.Tensor]]:
        """The eager model, its first call, and a sample of its weights before that call.

        The call shows which inputs can be differentiated: not those that the model changes in
        place. And whether what is drawn can be recorded: the gradient of ``torch.cond`` cannot be
        taken meanwhile. An error that stays is the model's own: compiled code is to raise it too.
        """
        differentiable = (True, False) if self.case.phase == "train" else (False,)
        for self._records, self._input_gradients in product((True, False), differentiable):
            found = self._try_first_call(vary)
            if found[1].error is None:
                break
        written = tuple(sorted(n for n in found[1].written if n.startswith("input")))
        if self.case.phase == "train" and not self._input_gradients and written:
            self._input_gradients, self._written_inputs = True, written
            again = self._try_first_call(vary)
            if again[1].error is None:
                return again
            self._input_gradients, self._written_inputs = False, ()
        return found

    def _try_first_call(
        self, vary: dict[str, tuple[int, ...]]
    ) -> tuple[Subject, Result, dict[str, torch.Tensor]]:
        self._enter("build")
        eager = self.build()
        built = weights.sample(eager)
        self._enter("eager")
        return eager, self._call_eager(first_call(vary), eager), built

    def _refuse_what_only_raises(self, first: Result) -> None:
        """A model whose calls all raise before anything is compiled is called wrongly."""
        if first.error is None or self._eager_returned:
            return
        seen = self._recorder.capture()
        if not seen.graphs or (self.request.backend == "inductor" and not seen.lowered):
            self._enter("eager")
            raise first.error

    def _compare_overlapping(
        self, planned: PlannedCall, eager: Subject, compiled: Subject, comparison: Comparison
    ) -> None:
        """The call that another one overlaps; left out where eager or the GPU cannot hold two.

        A forward that writes to what an earlier one saved for its backward spoils that.
        """
        if not self._has_room_for_two():
            self._left_out = "two calls might not fit into the GPU's memory"
            return
        before = [Snapshot(side.module, parameters=True) for side in (eager, compiled)]
        try:
            made = self._call_eager(planned, eager)
            if made.error is None:
                self._compare_call(planned, made, compiled, comparison)
                return
            self._left_out = f"in eager, {error_text.with_kind(made.error)}"
        except Exception as error:
            cause = out_of_memory.said_in(error)
            if cause is None:
                raise
            self.ran_out_of_memory = True
            self._left_out = error_text.with_kind(cause)
        for snapshot in before:
            snapshot.put_back()

    def _has_room_for_two(self) -> bool:
        """Whether the GPU holds what two calls save, in the reference's double precision, too."""
        if self.case.device == "cpu":
            return True
        free, _ = torch.cuda.mem_get_info()
        free += torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        peak = max(self._compile_peak_bytes, self._memory.eager_peak_bytes if self._memory else 0)
        return 2 * _DOUBLE[self.case.precision] * peak < free

    def _call_eager(self, planned: PlannedCall, eager: Subject) -> Result:
        if self.stage != "vary":
            self._enter("eager")
        with self.ledger.spend("prepare"):
            call = eager.prepare(planned)
        is_needed = self.case.device == "cuda"
        wanted = self._records and (is_needed or self._draws is not False)
        tape = Tape(is_needed=is_needed) if wanted else None
        with self.ledger.spend("run"):
            result = eager.call(call, planned.index, tape)
        if isinstance(result.error, SelectorError):
            raise result.error
        self._eager_returned |= result.error is None
        result.tape = tape
        return result

    def _compare_call(
        self,
        planned: PlannedCall,
        made: Result,
        compiled: Subject,
        comparison: Comparison,
    ) -> None:
        with self.ledger.spend("prepare"):
            call = compiled.prepare(planned)
            facts = guard_inputs.of(call, planned.index, made.before)
            compiling.mark_dynamic(compiled, call)
        first = self._compile_time is None
        if self.stage != "vary":
            self._enter("compile" if first else "call")
        peak = memory.CudaPeak() if first and self.case.device == "cuda" else None
        others = OtherLoad() if first else None
        start = time.perf_counter()
        with self.ledger.spend("compile"):
            result = compiled.call(call, planned.index, around=peak)
        taken_s = time.perf_counter() - start
        if peak is not None:
            self._compile_peak_bytes = peak.allocated_bytes
        if others is not None:
            self._compile_time = compile_log.compile_time(taken_s, others.share())
        self._recorder.after_call(planned.index, planned.sizes)
        if result.error is not None and made.error is None:
            self.raised_alone = name_of_call(planned.index, planned.sizes)
            raise result.error
        outputs, gradients, state = comparison.of_call(planned, made, result)
        self._calls.append(
            CallFacts(
                sizes=planned.sizes,
                numbers=facts.numbers,
                rest=facts.rest,
                outputs=outputs,
                gradients=gradients,
                state=state,
                raised=results.raised_alike(made, result),
                overflowed=results.overflowed(made, result),
                overlaps=planned.overlaps,
            )
        )

    def _measure(self, eager: Subject, compiled: Subject, planned: PlannedCall) -> None:
        """Time, memory and energy at the first sizes."""
        sides = [(side, side.prepare(planned)) for side in (eager, compiled)]
        for _, call in sides:
            compiling.mark_dynamic(compiled, call)

        def step(side: Subject, call: Call, leaves: Sequence[torch.Tensor]) -> None:
            for leaf in leaves:
                leaf.grad = None
            side.step(call)

        def rest() -> None:
            for side, call in sides:
                side.forget_gradients(call)

        # Looking for the leaves takes as long as a small model's call.
        steps = [functools.partial(step, *side, side[0].leaves(side[1])) for side in sides]
        rest()
        wants = self.request.wants
        turns = None
        if self.request.in_turns and self._line is not None:
            turns = Turns(self._line, self.case.device, rest)
        with self.ledger.spend("run"):
            if "time" in wants:
                self._enter("time")
                self._timing = paired_rounds(
                    *steps,
                    device=self.case.device,
                    seed=self.request.seed,
                    threshold=self.request.speedup_threshold,
                    budget_s=self.request.timing_budget_s,
                    items=items_of(sides[0][1], planned.sizes),
                    turns=turns,
                    shares_gpu=self.request.shares_gpu,
                )
            if "memory" in wants:
                self._enter("memory")
                rest()  # or freeing the last gradients would be counted
                self._memory = memory.peak_memory(
                    *steps,
                    device=self.case.device,
                    compile_peak_bytes=self._compile_peak_bytes,
                )
            if "energy" in wants and self.case.device == "cuda":
                self._enter("energy")
                self._energy = energy.of_a_call(*steps, shares_gpu=self.request.shares_gpu)

    def _observe_randomness(self, eager: Subject, compiled: Subject, planned: PlannedCall) -> None:
        """Compile once more, to draw as compiled code does by itself."""
        self._capture = self._recorder.capture()
        self._enter("random")
        with self.ledger.spend("compile"):
            compiled.let_go()
            compile_log.reset()
            torch._inductor.config.fallback_random = False
            compiling.compile_subject(compiled, self.model, self.request.backend)
            self._randomness = randomness.observe(eager, compiled, planned)

    def observation(self, status: Status, failure: Failure | None) -> Observation:
        """The record of what was seen, whole or in part."""
        spent = dict(self.ledger.spent_s)
        spent["other"] = time.perf_counter() - self._started - sum(spent.values())
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
            calls=tuple(self._calls),
            capture=self._capture or (self._recorder.capture() if self._captured else None),
            compile_time=self._compile_time,
            timing=self._timing,
            memory=self._memory,
            energy=self._energy,
            tf32=self.request.tf32,
            draws=bool(self._draws),
            randomness=self._randomness,
            signal=self._signal,
            input_gradients=self._input_gradients,
            written_inputs=self._written_inputs,
            left_out=self._left_out,
            spent_s=spent,
        )
