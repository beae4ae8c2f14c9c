"""Mask values such as -1e9: elements of a tensor that are marks, not results of a computation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from compilegate.observe.model.weight_changes import MASK_VALUE

#: A mask value is MASK_VALUE times as large as nearly all other elements. The twentieth with the
#: smallest magnitude determines their size.
_SMALLEST_SHARE = 0.05
#: The size of the other elements is estimated from about this many evenly spaced ones.
_ELEMENTS = 1 << 14
#: A mask value is correct to within this many units of its rounding.
_OWN_ROUNDING = 8.0


def masks_begin(truths: torch.Tensor) -> torch.Tensor | None:
    """Return the magnitude above which the elements of each row are mask values.

    It is four orders of magnitude above nearly all other elements of the row, and at least ten
    thousand. It is infinite for rows without mask values. If no row has any, the result is None.

    Args:
        truths: The reference, one tensor per row.
    """
    lowest, highest = torch.stack(torch.aminmax(truths)).tolist()
    if lowest >= -MASK_VALUE and highest <= MASK_VALUE:
        return None
    marked = (truths.abs() > MASK_VALUE).any(1)
    if not bool(marked.any()):  # a NaN hides the range of the other elements
        return None
    stride = max(truths.shape[1] // _ELEMENTS, 1) | 1
    sample = truths[:, ::stride].double().abs()
    counted = torch.isfinite(sample) & (sample > 0)
    ordered = sample.where(counted, math.inf).sort(1).values
    ranks = (counted.sum(1) * _SMALLEST_SHARE).long().clamp(max=ordered.shape[1] - 1)
    usual = ordered.gather(1, ranks[:, None])  # indexing with a tensor would wait for a GPU
    return (MASK_VALUE * usual).clamp(min=MASK_VALUE).where(marked[:, None], math.inf)


def are_masks(
    known: torch.Tensor,
    sides: Sequence[torch.Tensor],
    dtypes: Sequence[torch.dtype],
    beyond: torch.Tensor,
) -> torch.Tensor:
    """Return where every side has the correct mask value, to within its own rounding.

    Next to such values, no error of another element would show. If an element as large as they are
    is off, all of these are sums of large numbers and no masks: next to smaller ones, a difference
    between two of them would be off by more than its rounding.

    Args:
        known: The reference, one tensor per row.
        sides: The other sides, in the same shape.
        dtypes: The dtype of each side before it was cast to double precision.
        beyond: The result of :func:`masks_begin`.
    """
    large = known.abs() > beyond
    marked = large.clone()
    for side, dtype in zip(sides, dtypes, strict=True):
        off = (side - known).abs()
        marked &= off <= _OWN_ROUNDING * torch.finfo(dtype).eps * known.abs()
    return marked & (marked == large).all(1, keepdim=True)
