"""Compare each call of compiled code with eager and with the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from compilegate.observe.compare import results
from compilegate.observe.compare.always_zero import AlwaysZero
from compilegate.observe.compare.eager_noise import SAMPLES, Sample, Sampler, nudges_of
from compilegate.observe.compare.training import Training
from compilegate.observe.compare.unrepeatable import candidates, without_unrepeatable
from compilegate.observe.compare.values import agree, is_doubtful, is_doubtful_as_a_whole
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.dispatch_mode import Mode
from compilegate.observe.model.fused_results import FusedProducts, FusedResults
from compilegate.observe.model.nudged_results import NudgedResults, NudgedSums
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.observe.threads import one_thread
from compilegate.observe.time_spent import TimeSpent
from compilegate.records.call import Checked
from compilegate.records.case import Case

#: The most runs with nudged results, and the number of calls after which no more are made because
#: none of them agreed with compiled code.
_AGREEING, _UNEXPLAINED = 2 * SAMPLES, 3


class CallComparer:
    """Compares the calls of both sides one by one, and trains both sides between calls.

    Args:
        eager: The eager model. It was called once.
        compiled: The compiled model. It was not called yet.
        reference: The reference.
        build: Builds another eager model, to sample its noise.
        time_spent: Records the time of the reference and of comparisons.
        half: Whether the case computes in half precision, or in TF32, whose mantissa is as short.

    Attributes:
        reference: As given.
        sampler: Makes eager calls again, to sample the noise.
    """

    def __init__(
        self,
        eager: Subject,
        compiled: Subject,
        reference: Reference,
        build: Callable[[], Subject],
        time_spent: TimeSpent,
        *,
        half: bool,
    ) -> None:
        self._eager = eager
        self.reference = reference
        self._time_spent = time_spent
        self._half = half
        self.sampler = Sampler(build)
        self._unexplained = 0
        #: Whether compiled code sums in another order than eager.
        self._sums_apart = eager.case.device == "cpu" and not half
        self._always_zero = AlwaysZero(build)
        self._training = Training(eager, compiled, half=half)

    def start_from_eager(self) -> None:
        """Measure changes of parameters from eager's: eager is new, and compiled was called."""
        self._training.restart()

    def of_call(
        self, planned: PlannedCall, eager: Result, compiled: Result
    ) -> tuple[Checked, Checked, Checked]:
        """Compare the outputs, gradients and state of a call. Then step both sides.

        Args:
            planned: The call.
            eager: The result of eager.
            compiled: The result of compiled code.
        """
        with self._time_spent.spend("reference"):
            truths = self.reference.results(planned, eager.recording) if eager.error is None else []
        checked, samples = self._with_samples(planned, eager, compiled, truths)
        with self._time_spent.spend("compare"), one_thread():
            truth = truths[0] if truths else None
            rates = self.reference.rates
            if planned.moved:
                self._training.restart()
            moved = self._training.step(planned.index, eager, truth, rates, samples)
        outputs, gradients, state = checked
        state += Checked(tensors=moved.tensors, differences=moved.differences)
        updates = Checked(errors=moved.errors)
        if self._eager.case.phase == "train":  # what moves a parameter there is its gradient
            gradients += updates
        else:
            gradients, state = Checked(), state + updates
        outputs, gradients = self._marked(planned, outputs, gradients)
        return outputs, gradients, state

    def _marked(self, planned: PlannedCall, *checked: Checked) -> list[Checked]:
        """Mark the errors of outputs and gradients that are zero whatever the numbers."""
        with self._time_spent.spend("reference"):
            return [self._always_zero.mark(planned, self._eager, one) for one in checked]

    def _is_doubtful(self, checked: Sequence[Checked]) -> bool:
        if any(is_doubtful(one, half=self._half) for one in checked):
            return True
        outputs, gradients, _ = checked
        in_half = self._eager.case.computes_in_half
        return in_half and any(map(is_doubtful_as_a_whole, (outputs, gradients)))

    def of_probe(
        self, planned: PlannedCall, eager: Result, compiled: Result, truths: Sequence[Result]
    ) -> tuple[Checked, Checked, Checked]:
        """Compare the outputs, gradients and state of a probing call. Nothing is stepped.

        Args:
            planned: The call.
            eager: The result of eager.
            compiled: The result of compiled code.
            truths: The results of the reference and of its alternative.
        """
        (outputs, gradients, state), _ = self._with_samples(planned, eager, compiled, truths)
        # With NaN in place of its numbers, nothing would wake a tensor.
        outputs, gradients = self._marked(replace(planned, probe=None), outputs, gradients)
        return outputs, gradients, state

    def _with_samples(
        self, planned: PlannedCall, eager: Result, compiled: Result, truths: Sequence[Result]
    ) -> tuple[tuple[Checked, Checked, Checked], list[Sample]]:
        """Compare a call. Sample eager's noise as far as that is needed."""
        checked = self._compare(eager, compiled, truths, ())
        samples: list[Sample] = []
        for nudge in nudges_of(self._eager.case):
            known = self.reference.is_exact or samples
            if known and not self._is_doubtful(checked):
                break
            drawn = self._draw(planned, eager, nudge)
            if drawn is None:
                break
            if not drawn:
                continue
            samples += drawn
            checked = self._compare(eager, compiled, truths, samples, checked)
        else:
            if self._sums_apart and any(is_doubtful(one, half=False) for one in checked):
                nudge = nudges_of(self._eager.case)[0]
                samples += self._draw(planned, eager, nudge, results=NudgedSums) or []
                checked = self._compare(eager, compiled, truths, samples, checked)
            if any(is_doubtful(one, half=self._half) for one in checked):
                agreeing = self._agreeing(planned, eager, compiled, checked)
                if agreeing:
                    samples += agreeing
                    checked = self._compare(eager, compiled, truths, samples, checked)
        return self._repeatable(planned, eager, compiled, checked), samples

    def _repeatable(
        self,
        planned: PlannedCall,
        eager: Result,
        compiled: Result,
        checked: tuple[Checked, Checked, Checked],
    ) -> tuple[Checked, Checked, Checked]:
        """Leave out what eager itself does not repeat, such as a time that an attribute keeps."""
        outputs, gradients, state = checked
        parts = {"output": outputs, "state": state}
        if not any(candidates(part, eager, compiled) for part in parts):
            return checked
        with self._time_spent.spend("reference"):
            again = self.sampler.again(planned, self._eager, eager)
        outputs, state = (
            without_unrepeatable(one, part, eager, compiled, again) for part, one in parts.items()
        )
        return outputs, gradients, state

    def _draw(
        self, planned: PlannedCall, eager: Result, nudge: float, **options: Any
    ) -> list[Sample] | None:
        with self._time_spent.spend("reference"):
            return self.sampler.samples(planned, self._eager, eager, nudge, **options)

    def _agreeing(
        self, planned: PlannedCall, eager: Result, compiled: Result, checked: Sequence[Checked]
    ) -> list[Sample]:
        """Return a run with other results of operators, with which compiled code agrees, if any.

        The error of compiled code against it is then no larger than eager's noise. An exact answer
        of compiled code that such a run gives, too, is a tie.
        """
        if self._unexplained == _UNEXPLAINED:
            return []
        found: list[Sample] = []

        def agrees(sample: Sample) -> bool:
            against = self._compare(sample.result, compiled, (), ())
            if agree(against, checked, half=self._half):
                found.append(sample)
            return bool(found)

        for mode, nudge, first in _rounding_otherwise(self._eager.case):
            self._draw(planned, eager, nudge, results=mode, first=first, until=agrees)
            if found:
                return found
        self._unexplained += 1
        return []

    def _compare(
        self,
        eager: Result,
        compiled: Result,
        truths: Sequence[Result],
        samples: Sequence[Sample],
        known: Sequence[Checked] = (Checked(), Checked(), Checked()),
    ) -> tuple[Checked, Checked, Checked]:
        with self._time_spent.spend("compare"), one_thread():
            call = results.CallResults(
                eager,
                compiled,
                truths,
                samples,
                half=self._half,
                same_message=self._eager.example.raises is not None,
            )
            by_rows = self._eager.case.computes_in_half
            return (
                results.compare_outputs(call, by_rows=by_rows, known=known[0]),
                results.compare_gradients(call, known=known[1]),
                results.compare_state(call, known=known[2]),
            )


def _rounding_otherwise(case: Case) -> Iterator[tuple[Callable[[int], Mode], float, int]]:
    """Yield what makes operators round otherwise, the nudge next to it, and the first seed."""
    if case.computes_in_half:
        yield FusedResults, 0.0, 0
    elif case.device != "cpu":  # C++ is compiled without such instructions
        yield FusedProducts, 0.0, 0
    for seed in range(SAMPLES, SAMPLES + _AGREEING, SAMPLES):
        yield NudgedResults, nudges_of(case)[0], seed
