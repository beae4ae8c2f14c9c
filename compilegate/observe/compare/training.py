"""Gradient descent between the calls of *train*: the next call shows a stale or lost update.

The optimizer is SGD without momentum. Its step is linear in the gradient, so that sides that differ
by rounding stay close. Adaptive optimizers divide by the size of a gradient, which may be zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch

from compilegate.observe.compare.eager_noise import Sample
from compilegate.observe.compare.parameters import compare_parameters
from compilegate.observe.model import cast_weights
from compilegate.observe.model.calls import is_driven
from compilegate.observe.model.learning_rates import LearningRates
from compilegate.observe.model.result import Result
from compilegate.observe.model.subject import Subject
from compilegate.records.call import Checked


class Training:
    """Steps and compares the parameters of both sides and of the reference after each call.

    If actions before the calls may change the model, they step it themselves.

    Args:
        eager: The eager model.
        compiled: The compiled model. It was not called yet.
        half: Whether the case computes in half precision.
    """

    def __init__(self, eager: Subject, compiled: Subject, *, half: bool) -> None:
        self._sides = (eager, compiled)
        self._half = half
        self._steps = eager.case.phase == "train" and not is_driven(eager.example)
        self._start_from(compiled)

    def _start_from(self, side: Subject) -> None:
        self._initial = {name: p.detach().clone() for name, p in side.parameters().items()}
        # Without steps, a copy in double precision would waste memory.
        self._expected = {
            n: cast_weights.in_double(p) if self._steps else p for n, p in self._initial.items()
        }

    def restart(self) -> None:
        """Measure changes from eager's current weights, after they changed on all sides."""
        if not self._steps:
            self._start_from(self._sides[0])

    def step(
        self,
        index: int,
        result: Result,
        truth: Result | None,
        rates: LearningRates,
        samples: Sequence[Sample] = (),
    ) -> Checked:
        """Step both sides after a call and compare their parameters.

        Args:
            index: The number of the call.
            result: The result of eager.
            truth: The result of the reference, if there is one.
            rates: The learning rates.
            samples: Nudged eager runs of the call.
        """
        eager, compiled = self._sides
        sizes: dict[str, float] = {}
        if self._steps and result.error is None and not result.found_inf:
            sizes = rates.for_call(index, eager.parameters(), result)
            for side in self._sides:
                side.update(sizes)
        expected: dict[str, torch.Tensor] = {}
        if truth is not None and is_driven(eager.example):
            expected = truth.parameters
        elif truth is not None:
            expected = self._expected = self._rounded(self._descend(truth, sizes))
        checked = compare_parameters(
            self._initial,
            eager.parameters(),
            compiled.parameters(),
            expected,
            samples=lambda names: [
                (self._sampled(names, result, one.result, sizes), one.nudge) for one in samples
            ],
            stepped={*sizes, *self._written(result)},
            half=self._half,
        )
        if self._steps:
            self._align(expected)
        return checked

    def _written(self, result: Result) -> list[str]:
        """The names of the parameters that the call wrote to."""
        names = self._sides[0].parameters()
        return [name for name in names if f"parameter {name}" in result.written]

    def _align(self, expected: Mapping[str, torch.Tensor]) -> None:
        """Continue with the same parameters on both sides, so that a wrong step is reported once.

        These are the parameters of the reference, if there is one. On its own path, a ReLU network
        would differ from eager so much after a few steps that no error would show.
        """
        eager = self._sides[0].parameters()
        with torch.no_grad():
            for side in self._sides:
                for name, parameter in side.parameters().items():
                    parameter.copy_(expected.get(name, eager[name]))

    def _sampled(
        self,
        names: Collection[str],
        result: Result,
        sample: Result,
        sizes: Mapping[str, float],
    ) -> dict[str, torch.Tensor]:
        """Return some of eager's parameters as if the call had had the result of the sample."""
        eager, moved = self._sides[0].parameters(), {}
        for name in (sizes.keys() | sample.parameters.keys()) & {*names}:
            now = eager[name].detach()
            ours, theirs = result.parameters.get(name), sample.parameters.get(name)
            if ours is not None and theirs is not None:
                now = now + (theirs - ours)
            ours, theirs = result.gradients.get(name), sample.gradients.get(name)
            if name in sizes and ours is not None and theirs is not None:
                now = now + sizes[name] * (ours - theirs)
            moved[name] = now
        return moved

    def _rounded(self, expected: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return parameters as a step leaves them, in which weights in half precision are rounded.

        A step may move a parameter by less than that rounding. Without it, no step would show.
        """
        half = cast_weights.half(self._sides[0].case)
        return {n: p.to(half).to(p.dtype) for n, p in expected.items()} if half else expected

    def _descend(self, truth: Result, sizes: Mapping[str, float]) -> dict[str, torch.Tensor]:
        """Return the reference's parameters after the writes of the call and the step."""
        written = {**self._expected, **truth.parameters}
        return {
            name: value
            if name not in sizes or (gradient := truth.gradients.get(name)) is None
            else value - sizes[name] * gradient
            for name, value in written.items()
        }
