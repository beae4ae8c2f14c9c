"""Pool the errors of all tensors of one comparison in half precision.

A fault that makes every tensor slightly less exact shows in none of them, but in all together. By
how much the pooled error varies by chance is known from nudged eager runs: layers pass errors on,
so elements and tensors do not err independently.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import torch

from compilegate.observe.compare.error_figures import Measurand, measure_errors
from compilegate.observe.compare.errors import Sides
from compilegate.records.call import Pooled, TensorError
from compilegate.records.rounding import is_blind

#: Eager computes a tensor in half precision if it errs by at least this share of its scale.
_LEAST = 2.0**-16
#: No tensor counts for more than this factor. Beyond it, it has bounds of its own.
_MOST = 4.0
#: The variance of the logarithm of a tensor's ratio that its number of elements does not reduce.
_BETWEEN = 0.1**2


def pooled_errors(tensors: Sequence[Sides], errors: Sequence[TensorError]) -> Pooled | None:
    """Return the pooled errors of tensors; None if no tensor counts.

    Args:
        tensors: The tensors on all sides.
        errors: Their errors, by which they are found.
    """
    known = {error.name: error for error in errors if _counts(error)}
    counted = [(sides, known[sides.name]) for sides in tensors if sides.name in known]
    if not counted:
        return None
    weights = [1 / (_BETWEEN + 1 / error.numel) for _, error in counted]
    ratios = [error.compiled_rms / error.eager_own for _, error in counted]
    nudged = zip(*(_nudged(*pair) for pair in counted), strict=False)
    return Pooled(
        ratio=_mean(ratios, weights),
        tensors=len(counted),
        elements=sum(error.numel for _, error in counted),
        nudged=tuple(_mean(one, weights) for one in nudged),
    )


def _counts(error: TensorError) -> bool:
    known = (
        error.has_reference and bool(error.numel) and getattr(torch, error.dtype).is_floating_point
    )
    return known and error.eager_own >= _LEAST and not is_blind(error)


def _mean(ratios: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted geometric mean."""
    logs = [math.log(min(max(ratio, 1 / _MOST), _MOST)) for ratio in ratios]
    return math.exp(sum(map(operator.mul, logs, weights)) / sum(weights))


def _nudged(sides: Sides, error: TensorError) -> list[float]:
    """Return the ratio of each run with the smallest nudge to eager."""
    if not sides.samples:
        return []
    smallest = min(nudge for _, nudge in sides.samples)
    runs = [run for run, nudge in sides.samples if nudge == smallest]
    others = (sides.eager, sides.compiled)
    found = measure_errors([Measurand(truth, runs, others) for truth in sides.references])
    nearest = min(found, key=lambda one: abs(one[0].rms - error.eager_own))
    return [run.rms / error.eager_own for run in nearest]
