"""The learning rates of the gradient descent between the calls of *train*."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping

import torch

from compilegate.observe.model.result import Result

#: A step should change the outputs by about this share of their norm, to first order. That is far
#: more than rounding, but a deep model without norms does not diverge.
_CHANGE = 0.02
#: No parameter moves by more than this share of its norm …
_LARGEST_STEP = 0.02
#: … and a gradient below this share of the median gradient gives a smaller step: it may be noise.
_SMALLEST_GRADIENT = 1e-3
_LARGEST_RATE = torch.finfo(torch.float32).max
#: Outputs that have grown by this factor since the first call diverge. A mean of few elements may
#: be as large by chance.
_DIVERGED, _FEWEST_ELEMENTS = 4.0, 64


class LearningRates:
    """Learning rates by call and parameter, the same for all sides. The first request sets them.

    Each parameter ``p`` with gradient ``g`` moves by ``share · |p| / |g| · g``. The gradients are
    those of a functional of unit norm, so the outputs change by ``share · Σ |p| |g|`` along its
    direction. ``share`` makes that a fiftieth of the norm of the outputs. If gradients grow, later
    steps are clipped to the norm of the first step. If outputs grow all the same, there are no more
    steps: an output that is small next to another one may change far more than a fiftieth.
    """

    def __init__(self) -> None:
        self._first: dict[str, float] | None = None
        self._first_norm = 0.0
        self._first_sizes: dict[str, float] = {}
        self._by_call: dict[int, dict[str, float]] = {}

    def for_call(
        self, index: int, parameters: Mapping[str, torch.Tensor], result: Result
    ) -> dict[str, float]:
        """Return the learning rate of each parameter for the step after a call.

        Args:
            index: The number of the call.
            parameters: The parameters of the call, by name.
            result: The result of the call. Only the first request for a call reads it.
        """
        if index not in self._by_call:
            norms = _gradient_norms(parameters, result)
            norm, sizes = math.hypot(*norms.values()), _sizes_of_outputs(result)
            if self._first is None:
                self._first, self._first_norm = _first_rates(parameters, norms, result), norm
                self._first_sizes = sizes
            if any(
                sizes.get(n, 0.0) > _DIVERGED * size > 0 for n, size in self._first_sizes.items()
            ):
                self._first = {}
            clip = min(1.0, self._first_norm / norm) if norm else 1.0
            self._by_call[index] = {name: clip * rate for name, rate in self._first.items()}
        return self._by_call[index]


def _sizes_of_outputs(result: Result) -> dict[str, float]:
    """Return the root mean square of each output that has enough elements."""
    return {
        name: float(leaf.double().square().mean().sqrt())
        for name, leaf in result.output.items()
        if isinstance(leaf, torch.Tensor)
        and leaf.is_floating_point()
        and leaf.numel() >= _FEWEST_ELEMENTS
    }


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
    # A parameter at zero moves, too: as far as one with a hundredth of the median norm.
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
    # For a gradient near zero, the rate would be larger than float32 can hold.
    return {name: rate for name, rate in rates.items() if rate < _LARGEST_RATE}
