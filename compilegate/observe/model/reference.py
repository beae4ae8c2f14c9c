"""The results of a model's calls as they should be: in float64, or as near to it as can be had."""

from __future__ import annotations

from collections.abc import Callable

import torch

from compilegate.observe.compare.training import Rates
from compilegate.observe.model.calls import PlannedCall, is_driven
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.random_draws import Tape, TapeError
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject

#: Builds a model in the precision of a lifting.
Build = Callable[[Lifting], Subject]


#: Bytes of results up to which they are kept for other cases.
_MOST_KEPT = 2**31


class Reference:
    """The reference results of a model's calls, made when first asked for, shared by its cases.

    In float64 with every explicit cast lifted; where a model does not run in float64, in float32
    without autocast. Where casts to half precision were lifted, a second run that keeps them is an
    alternative: eager follows one or the other, tensor by tensor.

    Args:
        build: Builds the model.
    """

    def __init__(self, build: Build) -> None:
        self._build = build
        self._run: _Run | None = _Run(build, Lifting())
        self._alternative: _Run | None = None
        self._may_have_alternative = True
        self._plays = True
        #: Why it is not float64; empty if it is.
        self.trouble = ""
        #: Step sizes of the training between calls.
        self.rates = Rates()

    @property
    def kind(self) -> str:
        """Its precision, with what stayed lower or why it is not float64."""
        if self._run is None:
            return f"none: {self.trouble}"
        lifting = self._run.lifting
        lower = ", ".join(f"{op} ({dtype})" for op, dtype in sorted(lifting.lower.items()))
        parts = [str(lifting.dtype), f"lower in {lower}" if lower else "", self.trouble]
        return "; ".join(part for part in parts if part).replace("torch.", "")

    @property
    def is_exact(self) -> bool:
        """Whether it is in float64."""
        return not self.trouble

    def results(self, planned: PlannedCall, tape: Tape | None = None) -> list[Result]:
        """The reference of a call and its alternative; none where the model runs in neither.

        None either where two of its calls cannot overlap, though two of eager's can: what autocast
        saves is a copy.

        Args:
            planned: The call.
            tape: What eager drew in it; the reference draws for itself if there is none.
        """
        if self._run is not None and self._run.has_dropped(planned):  # for a case before this one
            self._run, self._alternative = _Run(self._build, Lifting(self._run.lifting.dtype)), None
        while self._run is not None:
            tape = tape if self._plays else None
            try:
                found = [self._run.result(planned, self.rates, tape)]
            except Exception as error:
                if isinstance(error, TapeError) and tape is not None and not tape.is_needed:
                    self._plays = False
                    if not self._run.has_results:
                        self._run = _Run(self._build, Lifting(self._run.lifting.dtype))
                    continue
                if planned.overlaps:  # the last call: the others' results stay what they are
                    return []
                self._fall_back(self._run, error)
                continue
            return found + self._alternatives(self._run, planned, tape)
        return []

    def _fall_back(self, failed: _Run, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        if failed.lifting.dtype == torch.float64 and not failed.has_results:
            self._run = _Run(self._build, Lifting(torch.float32))
            self.trouble = f"not float64: {reason}"
        else:
            self._run, self.trouble = None, reason

    def _alternatives(self, run: _Run, planned: PlannedCall, tape: Tape | None) -> list[Result]:
        if not (run.lifting.lifted_halves and self._may_have_alternative):
            return []
        if planned.index == 0 and self._alternative is None:
            self._alternative = _Run(self._build, Lifting(run.lifting.dtype, halves=False))
        if self._alternative is None:  # the first call knew no such cast
            return []
        try:
            return [self._alternative.result(planned, self.rates, tape)]
        except Exception:  # half precision and the reference's do not mix in this model
            self._may_have_alternative = False
            return []


class _Run:
    """One reference: a subject, and the results that it has given so far, as far as they fit.

    Those of a large model are made anew for each case: gradients of every call in float64 are more
    than a machine has.
    """

    def __init__(self, build: Build, lifting: Lifting) -> None:
        self.lifting = lifting
        self._build = build
        self._subject: Subject | None = None
        self._results: dict[int, Result] = {}
        self._made = 0
        self._bytes = 0

    @property
    def has_results(self) -> bool:
        return self._made > 0

    def has_dropped(self, planned: PlannedCall) -> bool:
        """Whether the result of a call was given once and is not kept any more."""
        return planned.index < self._made and planned.index not in self._results

    def result(self, planned: PlannedCall, rates: Rates, tape: Tape | None) -> Result:
        """The result of a call.

        Raises:
            Exception: What the model raises in this precision.
        """
        if planned.index not in self._results:
            if self._subject is None:
                self._subject = self._build(self.lifting)
            subject = self._subject
            self.lifting.player = tape.player() if tape is not None else None
            result = subject.call(subject.prepare(planned), planned.index)
            if result.error is not None:
                raise result.error
            self._keep(planned.index, result)
            if subject.case.phase == "train" and not is_driven(subject.example):
                subject.update(rates.of(planned.index, subject.parameters(), result))
        return self._results[planned.index]

    def _keep(self, index: int, result: Result) -> None:
        self._made = index + 1
        self._bytes += result.nbytes
        if self._bytes > _MOST_KEPT:
            self._results.clear()
        self._results[index] = result
