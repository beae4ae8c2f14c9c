"""Pool the errors of all tensors of one comparison in half precision.

A fault that makes every tensor slightly less exact shows in none of them, but in all together. By
how much the pooled error varies by chance is known from nudged eager runs: layers pass errors on,
so elements and tensors do not err independently.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from compilegate.observe.compare.error_figures import Measurand, measure_errors
from compilegate.observe.compare.nearest_reference import Sides
from compilegate.records.call import Pooled, TensorError
from compilegate.records.rounding import HALF_ERRORS, is_blind, pooled_ratio


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
    elements = [error.numel for _, error in counted]
    ratios = [error.compiled_rms / error.eager_own for _, error in counted]
    nudged = zip(*(_nudged(*pair) for pair in counted), strict=False)
    return Pooled(
        ratio=pooled_ratio(ratios, elements),
        tensors=len(counted),
        elements=sum(elements),
        nudged=tuple(pooled_ratio(one, elements) for one in nudged),
    )


def _counts(error: TensorError) -> bool:
    known = (
        error.has_reference and bool(error.numel) and getattr(torch, error.dtype).is_floating_point
    )
    return known and error.eager_own >= HALF_ERRORS and not is_blind(error)


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
