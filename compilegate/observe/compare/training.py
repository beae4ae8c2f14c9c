"""Gradient descent between the calls of *train*: a stale or lost update shows in the next call.

Plain SGD without momentum, whose step is linear in the gradient: sides that differ by rounding stay
together, which adaptive optimizers, dividing by the size of a gradient near zero, do not grant.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import torch

from compilegate.observe.compare.eager_noise import Sample
from compilegate.observe.compare.results import compare_parameters
from compilegate.observe.model.calls import is_driven
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.records.call import Checked

#: A step is to change the outputs by about this share of their norm, to first order: far more than
#: rounding, and not so much that a deep model without norms runs away.
_CHANGE = 0.02
#: No parameter moves by more than this share of its norm …
_LARGEST_STEP = 0.02
#: … and one whose gradient is this much below the median's takes smaller steps: it may be noise.
_SMALLEST_GRADIENT = 1e-3
_LARGEST_RATE = torch.finfo(torch.float32).max


class Rates:
    """Step sizes by call and parameter, the same for all sides: the first to ask decides.

    Each parameter ``p`` with gradient ``g`` moves by ``share · |p| / |g| · g``. Since gradients are
    those of a functional of unit norm, the outputs then change by ``share · Σ |p| |g|`` along its
    direction; ``share`` makes that a fiftieth of the outputs' norm. Should gradients grow, later
    steps are clipped to the norm of the first.
    """

    def __init__(self) -> None:
        self._first: dict[str, float] | None = None
        self._first_norm = 0.0
        self._by_call: dict[int, dict[str, float]] = {}

    def of(
        self, index: int, parameters: Mapping[str, torch.Tensor], result: Result
    ) -> dict[str, float]:
        """The step sizes after the ``index``-th call.

        Args:
            index: The call.
            parameters: Those that it was made with.
            result: What it did, if nobody asked before.
        """
        if index not in self._by_call:
            norms = _gradient_norms(parameters, result)
            norm = math.hypot(*norms.values())
            if self._first is None:
                self._first, self._first_norm = _first_rates(parameters, norms, result), norm
            clip = min(1.0, self._first_norm / norm) if norm else 1.0
            self._by_call[index] = {name: clip * rate for name, rate in self._first.items()}
        return self._by_call[index]


def _gradient_norms(parameters: Mapping[str, torch.Tensor], result: Result) -> dict[str, float]:
    norms = {
        name: float(gradient.norm())
        for name in parameters
        if (gradient := result.gradients.get(name)) is not None
    }
    return {name: norm for name, norm in norms.items() if norm > 0 and math.isfinite(norm)}


def _first_rates(
    parameters: Mapping[str, torch.Tensor], gradients: Mapping[str, float], result: Result
) -> dict[str, float]:
    if not gradients:
        return {}
    smallest = _SMALLEST_GRADIENT * statistics.median(gradients.values())
    norms = {name: float(parameters[name].detach().norm()) for name in gradients}
    usual = statistics.median(norms.values())
    # A parameter at zero moves too, as far as one of a hundredth of the usual norm.
    norms = {name: max(norm, 0.01 * usual) for name, norm in norms.items()}
    floats = [
        leaf
        for leaf in result.output.values()
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    ]
    outputs = math.sqrt(sum(float(leaf.double().square().sum()) for leaf in floats))
    reach = sum(norms[name] * gradients[name] for name in gradients)
    if not (reach > 0 and math.isfinite(outputs)):
        return {}
    share = min(_CHANGE * outputs / reach, _LARGEST_STEP)
    rates = {name: share * norms[name] / max(gradients[name], smallest) for name in gradients}
    # A gradient that is all but zero would be stretched by more than float32 holds.
    return {name: rate for name, rate in rates.items() if rate < _LARGEST_RATE}


class Training:
    """The parameters of both sides from call to call, beside those of the reference.

    Where actions before the calls change the model, they step it themselves, if they want to.

    Args:
        eager: The eager model.
        compiled: The compiled one, not called yet.
        half: Whether the case computes in half precision.
    """

    def __init__(self, eager: Subject, compiled: Subject, *, half: bool) -> None:
        self._sides = (eager, compiled)
        self._half = half
        self._steps = eager.case.phase == "train" and not is_driven(eager.example)
        self._begin(compiled)

    def _begin(self, side: Subject) -> None:
        self._initial = {name: p.detach().clone() for name, p in side.parameters().items()}
        # What is never stepped needs no room in double precision.
        self._expected = {n: p.double() if self._steps else p for n, p in self._initial.items()}

    def begin_anew(self) -> None:
        """Weights were moved from outside, on all sides alike: they begin where eager's are."""
        if not self._steps:
            self._begin(self._sides[0])

    def step(
        self,
        index: int,
        result: Result,
        truth: Result | None,
        rates: Rates,
        samples: Sequence[Sample] = (),
    ) -> Checked:
        """Step both sides after a call; what became of their parameters.

        Args:
            index: The call.
            result: What it did in eager.
            truth: The same call of the reference, if there is one.
            rates: Step sizes.
            samples: Nudged eager runs of the call.
        """
        eager, compiled = self._sides
        sizes: dict[str, float] = {}
        if self._steps and result.error is None and not result.found_inf:
            sizes = rates.of(index, eager.parameters(), result)
            for side in self._sides:
                side.update(sizes)
        expected: dict[str, torch.Tensor] = {}
        if truth is not None and is_driven(eager.example):
            expected = truth.parameters
        elif truth is not None:
            expected = self._expected = self._descend(truth, sizes)
        checked = compare_parameters(
            self._initial,
            eager.parameters(),
            compiled.parameters(),
            expected,
            samples=[(self._sampled(result, s.result, sizes), s.nudge) for s in samples],
            stepped={*sizes, *self._written(result)},
            half=self._half,
        )
        if self._steps:
            self._align(expected)
        return checked

    def _written(self, result: Result) -> list[str]:
        """The parameters that the call wrote to, if only what was there before."""
        names = self._sides[0].parameters()
        return [name for name in names if f"parameter {name}" in result.written]

    def _align(self, expected: Mapping[str, torch.Tensor]) -> None:
        """Let all go on from the same parameters: a wrong step is told once, here.

        From the reference's, if there is one: where it went on by itself, a ReLU network would part
        from eager so far in a few steps that nothing could be seen any more.
        """
        eager = self._sides[0].parameters()
        with torch.no_grad():
            for side in self._sides:
                for name, parameter in side.parameters().items():
                    parameter.copy_(expected.get(name, eager[name]))

    def _sampled(
        self, result: Result, sample: Result, sizes: Mapping[str, float]
    ) -> dict[str, torch.Tensor]:
        """Where eager's parameters would be had the call done what it did in the sample."""
        eager, moved = self._sides[0].parameters(), {}
        for name in sizes.keys() | sample.parameters.keys():
            now = eager[name].detach()
            ours, theirs = result.parameters.get(name), sample.parameters.get(name)
            if ours is not None and theirs is not None:
                now = now + (theirs - ours)
            ours, theirs = result.gradients.get(name), sample.gradients.get(name)
            if name in sizes and ours is not None and theirs is not None:
                now = now + sizes[name] * (ours - theirs)
            moved[name] = now
        return moved

    def _descend(self, truth: Result, sizes: Mapping[str, float]) -> dict[str, torch.Tensor]:
        """Where the reference's parameters are now: what the call wrote to them, then the step."""
        written = {**self._expected, **truth.parameters}
        return {
            name: value
            if name not in sizes or (gradient := truth.gradients.get(name)) is None
            else value - sizes[name] * gradient
            for name, value in written.items()
        }
