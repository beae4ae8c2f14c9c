"""The reference: the results of a model's calls in float64, or in float32 if float64 fails."""

from __future__ import annotations

from collections.abc import Callable

import torch

from compilegate.observe.capture import eager_calls
from compilegate.observe.model.calls import PlannedCall, is_driven
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.learning_rates import LearningRates
from compilegate.observe.model.random_draws import DrawRecording, ReplayError
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject

#: Builds a model in the precision of a lifting.
Build = Callable[[Lifting], Subject]

#: Results up to this size, in bytes, are kept for other cases.
MOST_KEPT = 2 << 30


class Reference:
    """The reference results of a model's calls. The cases of a model share them.

    The model runs in float64, and every explicit cast is lifted. A model that does not run in
    float64 runs in float32 without autocast. If casts to half precision were lifted, there is an
    alternative, which keeps them. Each tensor of eager is closer to one or to the other.

    Args:
        build: Builds the model.
        most_kept: Up to how many bytes of results are kept for other cases.

    Attributes:
        trouble: Why the reference is not in float64; empty if it is.
        rates: The learning rates of the training between calls.
    """

    def __init__(self, build: Build, *, most_kept: int = MOST_KEPT) -> None:
        self._build, self._most_kept = build, most_kept
        self._run: _Run | None = self._new_run(Lifting())
        self._alternative: _Run | None = None
        self._may_have_alternative = True
        self._replays = True
        self.trouble = ""
        self.rates = LearningRates()

    @property
    def kind(self) -> str:
        """The precision, the operators that stayed lower, and why it is not float64."""
        if self._run is None:
            return f"none: {self.trouble}"
        lifting = self._run.lifting
        lower = ", ".join(f"{op} ({dtype})" for op, dtype in sorted(lifting.lower.items()))
        parts = [str(lifting.dtype), f"lower in {lower}" if lower else "", self.trouble]
        return "; ".join(part for part in parts if part).replace("torch.", "")

    @property
    def dtype(self) -> torch.dtype:
        """The precision; float64 also where the model runs in none."""
        return torch.float64 if self._run is None else self._run.lifting.dtype

    @property
    def is_exact(self) -> bool:
        """Whether the reference is in float64."""
        return not self.trouble

    def results(self, planned: PlannedCall, recording: DrawRecording | None = None) -> list[Result]:
        """Return the reference of a call and its alternative, if there is one.

        The list is empty if the model runs in no precision. It is also empty if two calls of the
        reference cannot overlap. Those of eager can where autocast saves copies for backward.

        Args:
            planned: The call.
            recording: The numbers that eager drew in the call; without them the reference draws its
                own.
        """
        if self._run is not None and self._run.has_dropped(planned):  # an earlier case made it
            self._run = self._new_run(Lifting(self._run.lifting.dtype))
            self._alternative = None
        while self._run is not None:
            recording = recording if self._replays else None
            try:
                found = [self._run.result(planned, self.rates, recording)]
            except Exception as error:
                needs = recording is not None and recording.is_needed
                if isinstance(error, ReplayError) and not needs:
                    self._replays = False
                    if not self._run.has_results:
                        self._run = self._new_run(Lifting(self._run.lifting.dtype))
                    continue
                if planned.overlaps:  # it is the last call; the results of the others stay valid
                    return []
                self._fall_back(self._run, error)
                continue
            return found + self._alternatives(self._run, planned, recording)
        return []

    def _new_run(self, lifting: Lifting) -> _Run:
        return _Run(self._build, lifting, self._most_kept)

    def _fall_back(self, failed: _Run, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        if failed.lifting.dtype == torch.float64 and not failed.has_results:
            self._run = self._new_run(Lifting(torch.float32))
            self.trouble = f"not float64: {reason}"
        else:
            self._run, self.trouble = None, reason

    def _alternatives(
        self, run: _Run, planned: PlannedCall, recording: DrawRecording | None
    ) -> list[Result]:
        if not (run.lifting.lifted_halves and self._may_have_alternative):
            return []
        if planned.index == run.first and self._alternative is None:
            self._alternative = self._new_run(Lifting(run.lifting.dtype, halves=False))
        if self._alternative is None:  # the first call had no such cast
            return []
        try:
            return [self._alternative.result(planned, self.rates, recording)]
        except Exception:  # this model cannot mix half precision with that of the reference
            self._may_have_alternative = False
            return []


class _Run:
    """A subject of the reference, and its results as far as memory allows.

    Each case of a large model computes its reference again: the gradients of every call in float64
    need more memory than a machine has.
    """

    def __init__(self, build: Build, lifting: Lifting, most_kept: int) -> None:
        self.lifting = lifting
        self._build, self._most_kept = build, most_kept
        self._subject: Subject | None = None
        self._results: dict[int, Result] = {}
        self._made = 0
        self._bytes = 0
        #: The number of the call that it made first.
        self.first: int | None = None

    @property
    def has_results(self) -> bool:
        return self._made > 0

    def has_dropped(self, planned: PlannedCall) -> bool:
        """Whether the result of a call was computed before, but not kept."""
        return planned.index < self._made and planned.index not in self._results

    def result(
        self, planned: PlannedCall, rates: LearningRates, recording: DrawRecording | None
    ) -> Result:
        """Return the result of a call.

        Raises:
            Exception: The model raises in this precision.
        """
        if planned.index not in self._results:
            if self._subject is None:
                self._subject = self._build(self.lifting)
            subject = self._subject
            self.lifting.replay = recording.replay() if recording is not None else None
            result = eager_calls.call(subject, subject.prepare(planned), planned.index)
            if result.error is not None:
                raise result.error
            self._keep(planned.index, result)
            self.first = planned.index if self.first is None else self.first
            if subject.case.phase == "train" and not is_driven(subject.example):
                subject.update(rates.for_call(planned.index, subject.parameters(), result))
        return self._results[planned.index]

    def _keep(self, index: int, result: Result) -> None:
        self._made = index + 1
        self._bytes += result.nbytes
        if self._bytes > self._most_kept:
            self._results.clear()
        self._results[index] = result
