"""Errors of rows and columns of a tensor, which the errors of single elements may hide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

#: Rows are examined from this number on, over about this many elements. Neighbouring rows narrower
#: than this width are joined: in one or two numbers, a wrong row looks like a wrong number.
_FEWEST_ROWS, _NARROWEST, _ROWS_ELEMENTS = 4, 4, 1 << 17
#: A row of less than this share of the mean power is taken to have it: its error is mere noise.
_LEAST_POWER = 0.25
#: The share of the rows that are no further off than the high figure.
_HIGH = 0.98
#: A column is examined if at least this many rows determine its error: with few large ones, chance
#: would. The columns use about this many elements.
_FEWEST_COLUMN_ROWS, _COLUMNS_ELEMENTS = 16, 1 << 20
#: Rows of a batch may err alike. Then a column is a single draw, and eager may be right in it by
#: luck: this share of eager's largest error in columns of its scale counts.
_OF_SIMILAR = 0.4


class Rows(NamedTuple):
    """By how much rows are too large or too small, for each side.

    Attributes:
        examined: The number of rows that were examined.
        medians: The median over the rows.
        highs: The amount that one row in fifty exceeds.
    """

    examined: int
    medians: list[float]
    highs: list[float]


def along_rows(truth: torch.Tensor, sides: Sequence[torch.Tensor]) -> Rows:
    """Return how many rows were examined, and their scale errors for each side.

    The scale errors are those apart from what all rows have in common: all rows share the weights,
    and with them how these are rounded.

    One row that jumped does not move the median. Few wrong rows move only the high figure. If
    elements err independently, the scale error is far smaller than theirs. If a row was divided by
    a wrong number, it is as large.

    Args:
        truth: The reference.
        sides: The other sides, in the same shape.
    """
    width = truth.shape[-1] if truth.dim() > 1 and not truth.is_complex() else 0
    joined = -(-_NARROWEST // width) * width if width else 0
    if not joined or truth.numel() < _FEWEST_ROWS * joined:
        return Rows(0, [0.0] * len(sides), [0.0] * len(sides))
    whole = truth.numel() // joined
    stride = max(truth.numel() // _ROWS_ELEMENTS, 1)

    def rows_of(side: torch.Tensor) -> torch.Tensor:
        return side.reshape(-1)[: whole * joined].view(whole, joined)[::stride].double()

    known = rows_of(truth)
    power = known.square().sum(1)
    counted = torch.isfinite(power) & (power > 0)
    least = _LEAST_POWER * power.where(counted, math.nan).nanmean()
    power = power.clamp(min=least).where(counted, math.nan)
    off = torch.stack([((rows_of(side) - known) * known).sum(1) / power for side in sides])
    off = (off - off.nanmedian(dim=1, keepdim=True).values.nan_to_num(0.0, 0.0, 0.0)).abs()
    ranks = torch.tensor([0.5, _HIGH], dtype=torch.float64, device=off.device)
    figures = off.nanquantile(ranks, dim=1, interpolation="lower").nan_to_num(0.0, 0.0, 0.0)
    medians, highs = figures.tolist()
    return Rows(known.shape[0], medians, highs)


def worst_column(
    truth: torch.Tensor, eager: torch.Tensor, compiled: torch.Tensor
) -> tuple[int, float, float]:
    """Find the column in which compiled code errs the most compared with eager.

    Errors are relative to the scale of the column. It may be far below that of the tensor: a
    detector returns confidences next to coordinates. No column of few different rows is examined.

    Returns:
        The index of the column in the last dimension, −1 if no column was examined. Then the root
        mean square errors of eager and of compiled code in the column, relative to that of the
        reference. That of eager is at least a share of its largest in columns of a similar scale.
    """
    width = truth.shape[-1] if truth.dim() > 1 and not truth.is_complex() else 0
    if width < 2 or truth.numel() < _FEWEST_COLUMN_ROWS * width:
        return -1, 0.0, 0.0
    stride = max(truth.numel() // _COLUMNS_ELEMENTS, 1) | 1
    known, ours, theirs = (
        side.reshape(-1, width)[::stride].double() for side in (truth, eager, compiled)
    )
    if known.shape[0] < _FEWEST_COLUMN_ROWS:
        return -1, 0.0, 0.0
    finite = torch.isfinite(known + ours + theirs)
    scale = _of_columns(known, finite)
    counted = scale.pow(4) / _of_columns(known.square(), finite).square() * _distinct_rows(known)
    off = [_of_columns(side - known, finite) / scale for side in (ours, theirs)]
    off = [side.nan_to_num(0.0, 0.0) for side in off]  # a column of zeros
    whole = (_of_columns(ours - known, finite).norm() / scale.norm()).nan_to_num(0.0)
    examined = counted >= _FEWEST_COLUMN_ROWS
    off[0] = off[0].maximum(_OF_SIMILAR * _largest_of_similar(off[0].where(examined, 0.0), scale))
    shares = (off[1] / off[0].clamp(min=whole)).nan_to_num(0.0, 0.0)
    worst = shares.where(examined, -1.0).argmax()
    figures = [worst.double(), off[0][worst], off[1][worst], examined.any().double()]
    index, ours_off, theirs_off, any_examined = torch.stack(figures).tolist()
    return (int(index), ours_off, theirs_off) if any_examined else (-1, 0.0, 0.0)


def _largest_of_similar(errors: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the largest error among the columns whose scale is within a factor of 2.

    Scales fall into half octaves; those next to one count as similar, too.

    Args:
        errors: The error of each column, in shape (columns,).
        scale: The scale of each column, in the same shape.
    """
    half_octaves = (2 * scale.log2()).floor().nan_to_num(0.0, 0.0, 0.0)
    buckets = (half_octaves - half_octaves.min() + 1).long()  # a free one at each end
    largest = errors.new_zeros(int(buckets.max()) + 2)
    largest.scatter_reduce_(0, buckets, errors, "amax")
    return largest.unfold(0, 3, 1).amax(1)[buckets - 1]


def _distinct_rows(known: torch.Tensor) -> int:
    """Return how many rows differ in float32. Equal rows err alike, and count as one."""
    return len(set(known.sum(1).float().tolist()))


def _of_columns(values: torch.Tensor, finite: torch.Tensor) -> torch.Tensor:
    """Return the root mean square of each column."""
    return values.where(finite, 0.0).square().mean(0).sqrt()
