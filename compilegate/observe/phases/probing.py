"""Probing calls: calls that hardly any test of a model makes, after all others.

They use the weights of the last call, and leave no trace: after each of them, both sides get the
state back that they had before. Compiled code and the reference start from eager's state: what the
calls before have added to the error of a buffer would else be compiled code's alone.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import torch
import torch._dynamo.config

from compilegate.observe import error_text
from compilegate.observe.capture import compiling
from compilegate.observe.compare import missing_gradients, results, stable
from compilegate.observe.compare.layouts import undecided_in
from compilegate.observe.compare.slight_errors import are_slight
from compilegate.observe.compare.values import NOTHING_KNOWN
from compilegate.observe.device import out_of_memory
from compilegate.observe.error_text import is_of_python
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.forward import SelectorError
from compilegate.observe.model.plain_values import set_plain
from compilegate.observe.model.probes import Probe
from compilegate.observe.model.restarting import start_as
from compilegate.observe.model.result import Result
from compilegate.observe.model.snapshot import Snapshot
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.calls import PairedCalls, probe_compiled
from compilegate.observe.phases.extremes import Extremes
from compilegate.observe.phases.given_calls import GivenCalls
from compilegate.observe.phases.number_checks import (
    check_numbers,
    check_range,
    raised_in_eager,
)
from compilegate.observe.phases.probed_references import ProbedReferences
from compilegate.observe.phases.probing_plan import (
    SHARED,
    at_other_batches,
    in_other_layouts,
    reusing,
    with_further_inputs,
    with_other_numbers,
    with_plain_inputs,
)
from compilegate.observe.phases.progress import Progress
from compilegate.observe.phases.repeating import LeftOutError, repeated
from compilegate.observe.phases.rivals import rivals_of, squares_overflow
from compilegate.records.call import SHAPE, CallFacts, Checked, Difference

#: Seconds after which no further call that compiles again is begun.
_MOST_S = 120.0
#: In place of Dynamo's limit. The calls that compile again are known to be fewer.
_RAISED_LIMIT = 64
#: If eager and float64 disagree in a larger share of the output, the call is dropped.
_UNSTABLE_SHARE = 0.5


@dataclass
class Probing:
    """Makes probing calls on both sides, and compares them.

    Attributes:
        calls: Made the calls of the case.
        builder: Builds the references.
        progress: Is given stages and times.
        extremes: Says whether calls with extreme numbers are made, and reports them.
        facts: One entry for each call that was compared.
        left_out: Why each other call was not, one line each.
        ran_out_of_memory: Whether memory ran out, which ends the probing.
    """

    calls: PairedCalls
    builder: Builder
    progress: Progress
    extremes: Extremes
    facts: list[CallFacts] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    ran_out_of_memory: bool = False

    def __post_init__(self) -> None:
        self._references = ProbedReferences(self.calls, self.builder)
        self._given = GivenCalls(self.calls, self._references)
        self._unsteady: tuple[Difference, ...] = ()  # of the repetitions before a call

    def make_wanted(self, wants: Collection[str], sizes: dict[str, int]) -> None:
        """Make the probing calls that a request asks for, at the first sizes.

        Raises:
            Exception: The process cannot continue: the GPU's context is lost.
        """
        given = self.calls.eager.example, sizes, self.calls.eager.case
        if "reuse" in wants:
            self.make(reusing(*given))
            if are_slight(self.calls.seen.calls):
                self.make(with_further_inputs(*given))
        if {"respecialise", "small_batches"} & {*wants}:
            self.make(at_other_batches(*given))
        if "respecialise" in wants:
            if "every_layout" in wants or given[-1].phase == "infer":
                self.make(with_other_numbers(*given))
            most = None if "every_layout" in wants else SHARED
            self.make(in_other_layouts(*given), at_most=most)
        if "plain_inputs" in wants:
            self.make(with_plain_inputs(*given))

    def make(self, planned: Sequence[PlannedCall], *, at_most: int | None = None) -> None:
        """Make the calls, one after the other. End after ``at_most`` compared ones.

        Raises:
            Exception: The process cannot continue: the GPU's context is lost.
        """
        sides = (self.calls.eager, self.calls.compiled)
        begun, before = time.monotonic(), len(self.facts)
        kept = [Snapshot(one.module, parameters=True, shared=one.recorder.shared) for one in sides]
        with torch._dynamo.config.patch(recompile_limit=_RAISED_LIMIT):
            for one in planned:
                if len(self.facts) - before == at_most:
                    return
                self.progress.enter("probe")
                assert one.probe is not None
                try:
                    if time.monotonic() - begun > _MOST_S:
                        raise LeftOutError(f"the others took {_MOST_S:.0f} s")
                    if reason := self.extremes.against(one.probe) or self._given.against(one.probe):
                        raise LeftOutError(reason)
                    self.extremes.begin(one.probe)
                    self._probe(one, one.probe)
                except LeftOutError as reason:
                    self.left_out.append(f"{one.probe.name}: {reason}")
                except Exception as error:
                    cause = out_of_memory.find(error)
                    if cause is None:
                        raise
                    self.ran_out_of_memory = True
                    self.left_out.append(f"{one.probe.name}: {error_text.with_kind(cause)}")
                    return
                finally:
                    for snapshot in kept:
                        snapshot.put_back()

    def _probe(self, planned: PlannedCall, probe: Probe) -> None:
        """Make a call and keep its facts.

        Raises:
            LeftOutError: The call says nothing about compiled code.
        """
        compiled = self.calls.compiled
        with self.extremes.reported(probe, self.calls.wait):
            made, truths, rivals = self._made_outside(planned, probe)
        if made.error is not None:
            self._compare_error(planned, probe, made.error)
            return
        with self.progress.spend("prepare"):
            start_as(compiled, self.calls.eager, made)
            call = compiled.prepare(planned)
            set_plain(compiled.module, made.before)
            compiling.mark_dynamic(compiled, call)
        with self.progress.spend("compile"):
            result = probe_compiled(self.calls, planned, call)
        self.calls.seen.raised_in_probe |= result.error is not None
        if probe.loss is not None:
            result = missing_gradients.without_zeros(made, result)
        if probe.may_overflow and stable.overflow_apart(made, result):
            raise LeftOutError("compiled code or eager alone overflows")
        if (probe.is_extreme or probe.overlaps) and result.error is None:
            result, share = stable.settled(made, result, truths, rivals)
            if share > _UNSTABLE_SHARE:
                raise LeftOutError(f"eager and float64 disagree in {share:.0%} of the output")
        outputs, gradients, state = self.calls.comparison.of_probe(planned, made, result, truths)
        check_shapes(outputs, self.calls.seen.calls)
        outputs = replace(outputs, differences=(*outputs.differences, *self._unsteady))
        if probe.has_zeros and result.error is None:
            asleep = {error.name for error in outputs.errors if error.always_zero}
            zeros = stable.zeros_unlike(made, result, truths, asleep)
            outputs = replace(outputs, decisions=(*outputs.decisions, *zeros))
        gradients = gradients if probe.shows_gradients else Checked()
        if probe.loss is not None and probe.loss.may_cancel:
            gradients = missing_gradients.without_noise(gradients)
        if probe.loss is not None and probe.loss.is_infinite:
            gradients = Checked(differences=tuple(missing_gradients.lost_infinity(made, result)))
        facts = _facts(planned, probe, outputs, gradients, state)
        self.facts.append(replace(facts, overflowed=results.overflowed(made, result)))

    def _made_outside(
        self, planned: PlannedCall, probe: Probe
    ) -> tuple[Result, list[Result], list[stable.Rival]]:
        """Make a call outside of compiled code: in eager, in the references, and with the rivals.

        Raises:
            LeftOutError: It says nothing about compiled code.
        """
        made = self._made_in_eager(planned, probe)
        if made.error is not None:
            return made, [], []
        with self.progress.spend("reference"):
            truths = self._references.results(planned, made)
        if not truths:
            raise LeftOutError(f"its reference raises {self._references.trouble}")
        if probe.may_overflow and squares_overflow(self.calls, planned):
            raise LeftOutError("eager computes a standard deviation in float64")
        return made, truths, rivals_of(self.calls, planned, probe, made)

    def _compare_error(self, planned: PlannedCall, probe: Probe, error: Exception) -> None:
        """Make a call in compiled code, which must raise as well.

        Its error may be of another class: Dynamo's own, where it evaluates an operator.

        Args:
            planned: The call.
            probe: What it has.
            error: What eager raised.

        Raises:
            LeftOutError: Compiled code raises, too, and nothing else can be compared.
        """
        raised = error_text.with_kind(error)
        with self.progress.spend("compile"):
            call = self.calls.compiled.prepare(planned)
            result = self.calls.compiled.call(call, planned.index)
        if result.error is not None:
            raise LeftOutError(f"in eager, {raised}")
        lost = Difference(where="call", what="raises", eager=raised, compiled="nothing")
        self.facts.append(_facts(planned, probe, Checked(differences=(lost,))))

    def _made_in_eager(self, planned: PlannedCall, probe: Probe) -> Result:
        """Make the call in eager, which shows whether it is legal.

        Raises:
            LeftOutError: It is not, or it is no other call than before. An error that Python code
                raises is a result: compiled code must raise, too. Operators may be laxer there.
        """
        try:
            plain = self.calls.eager.prepare(replace(planned, probe=None))
        except Exception as error:  # the recipe has no inputs of this size
            raise LeftOutError(f"the recipe raises {error_text.with_kind(error)}") from error
        if probe.changes_inputs and not probe.suits(plain):
            raise LeftOutError("no input that it could change")
        if probe.changes_state is not None and not probe.changes_state(_still(self.calls.eager)):
            raise LeftOutError("no parameter or buffer that it could change")
        check_numbers(self.calls.eager, planned, probe, plain)
        with self.progress.spend("run"):
            self._unsteady = repeated(self.calls, planned, probe.repeats)
        try:
            check_range(self.calls.eager, planned, probe)
            made = self.calls.call_eager(planned)
        except (SelectorError, torch.AcceleratorError) as error:
            self.calls.wait()  # it raises the latter again if the GPU's context is lost
            raise LeftOutError(_reason_of(error)) from error
        changed = probe.is_extreme or probe.changes_state is not None
        if made.error is not None and (changed or not is_of_python(made.error)):
            raise LeftOutError(raised_in_eager(made.error))
        if probe.changes_state is not None and not stable.is_finite(made):
            raise LeftOutError("eager does not only return finite numbers")
        if probe.overlaps and any(name.startswith("input") for name in made.written):
            raise LeftOutError("eager writes to an input whose elements share memory")
        if probe.loss is not None and not probe.loss.suits(_differentiable(made)):
            raise LeftOutError("for this output, it is no other loss")
        return made


def check_shapes(outputs: Checked, calls: Sequence[CallFacts]) -> None:
    """See whether outputs have another shape whose shape rounding decides in other calls, too.

    Args:
        outputs: The outputs of a probing call.
        calls: The calls of the case.

    Raises:
        LeftOutError: They have.
    """
    undecided = undecided_in(one for call in calls for one in call.outputs.decisions)
    for one in outputs.differences:
        if one.what == SHAPE and one.where in undecided:
            raise LeftOutError(f"rounding decides the shape of {one.where}")


def _reason_of(error: Exception) -> str:
    return str(error) if isinstance(error, SelectorError) else raised_in_eager(error)


def _still(eager: Subject) -> list[torch.Tensor]:
    """Return parameters and buffers, without those that training moves.

    Compiled code and the reference start from eager's.
    """
    trains = eager.case.phase == "train"
    still = [one for one in eager.parameters().values() if not (trains and one.requires_grad)]
    return [*still, *eager.buffers().values()]


def _facts(
    planned: PlannedCall,
    probe: Probe,
    outputs: Checked,
    gradients: Checked = NOTHING_KNOWN,
    state: Checked = NOTHING_KNOWN,
) -> CallFacts:
    """Return the facts of a probing call. What its guards may check justifies nothing."""
    return CallFacts(
        sizes=planned.sizes,
        numbers={},
        rest="",
        outputs=outputs,
        gradients=gradients,
        state=state,
        probe=probe.name,
        extreme=probe.is_extreme,
    )


def _differentiable(made: Result) -> list[torch.Tensor]:
    """Return copies of the outputs that require gradients."""
    with_grad = [path for path, one in made.layout.items() if one["requires_grad"] == "True"]
    return [made.output[path] for path in with_grad if path in made.output]
