"""Holds what compiled code did in each call of a case against eager and the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compilegate.observe.compare import results
from compilegate.observe.compare.eager_noise import NUDGES, Sample, Sampler
from compilegate.observe.compare.training import Training
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.observe.threads import one_thread
from compilegate.observe.time_spent import Ledger
from compilegate.records.call import Checked


class Comparison:
    """Follows both sides from call to call, and steps their parameters in between.

    Args:
        eager: The eager model, called once.
        compiled: The compiled one, not called yet.
        reference: What the right numbers are.
        build: Builds the eager model anew, to sample its noise.
        ledger: Where time is booked.
        half: Whether the case computes in half precision, or in TF32, whose mantissa is as short.
    """

    def __init__(
        self,
        eager: Subject,
        compiled: Subject,
        reference: Reference,
        build: Callable[[], Subject],
        ledger: Ledger,
        *,
        half: bool,
    ) -> None:
        self._eager = eager
        self._reference = reference
        self._ledger = ledger
        self._half = half
        self._sampler = Sampler(build)
        self._training = Training(eager, compiled, half=half)

    def of_call(
        self, planned: PlannedCall, eager: Result, compiled: Result
    ) -> tuple[Checked, Checked, Checked]:
        """Outputs, gradients and state of a call. Then both sides are stepped.

        Args:
            planned: The call.
            eager: What it did in eager.
            compiled: What it did in compiled code.
        """
        with self._ledger.spend("reference"):
            truths = self._reference.results(planned, eager.tape) if eager.error is None else []
        checked = self._compare(eager, compiled, truths, ())
        samples: list[Sample] = []
        for nudge in NUDGES[self._eager.case.precision]:
            known = self._reference.is_exact or samples
            if known and not any(results.is_doubtful(one, half=self._half) for one in checked):
                break
            with self._ledger.spend("reference"):
                drawn = self._sampler.samples(planned, self._eager, eager, nudge)
            if not drawn:
                break
            samples += drawn
            checked = self._compare(eager, compiled, truths, samples, checked)
        with self._ledger.spend("compare"), one_thread():
            truth = truths[0] if truths else None
            rates = self._reference.rates
            if planned.moved:
                self._training.begin_anew()
            moved = self._training.step(planned.index, eager, truth, rates, samples)
        outputs, gradients, state = checked
        state += Checked(tensors=moved.tensors, differences=moved.differences)
        updates = Checked(errors=moved.errors)
        if self._eager.case.phase == "train":  # what moves a parameter there is its gradient
            return outputs, gradients + updates, state
        return outputs, Checked(), state + updates

    def _compare(
        self,
        eager: Result,
        compiled: Result,
        truths: Sequence[Result],
        samples: Sequence[Sample],
        known: Sequence[Checked] = (Checked(), Checked(), Checked()),
    ) -> tuple[Checked, Checked, Checked]:
        with self._ledger.spend("compare"), one_thread():
            sides, half = (eager, compiled, truths, samples), self._half
            by_rows = self._eager.case.precision != "f32"
            return (
                results.compare_outputs(*sides, half=half, by_rows=by_rows, known=known[0]),
                results.compare_gradients(*sides, half=half, known=known[1]),
                results.compare_state(*sides, half=half, known=known[2]),
            )
