"""Errors of slices along each dimension: of channels, heads, time steps, filters, rows and columns.

One wrong channel of many changes no figure of the whole tensor: each of its elements may err as
much as rounding lets others err. Its errors have a direction in common, though. The sum over a
slice shows that, for rounding errors of single elements cancel there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from compilegate.records.call import SliceError
from compilegate.records.statistics import t_quantile

#: A dimension is examined if its number of indices is in this range, and if each slice has at least
#: this many elements.
_FEWEST, _MOST, _FEWEST_ELEMENTS = 4, 4096, 32
#: Of a large tensor, about this many evenly spaced elements are examined for each dimension.
_ELEMENTS = 1 << 19
#: A slice of less than this share of the mean power is taken to have it: its error is mere noise.
_LEAST_POWER = 0.25
#: A slice of less than this share of the mean power does not tell how much slices vary.
_COUNTED = 1 / 64
#: Rounding to a dtype errs by at least about this share of its resolution.
_ROUNDING = 0.2
#: How likely chance exceeds the noise of the scales of all slices together, if they are normal.
_CHANCE = 1e-3
#: The noise is at least this multiple of eager's slice that is furthest off, measured by the root
#: mean square error of the slice. What is furthest off in itself counts once.
_FURTHEST = 1.5
#: Both sides round the same weights, so that a slice may err as eager's does, or by this share of
#: its root mean square error, and by what the sides differ in other slices.
_SHARED = 0.4
#: The root mean square error of a slice may be this multiple of eager's, or as large as that of
#: the slice in which eager errs the most.
_OWN = 2.0
#: More slices than these do not change how well their spread is known.
_DEGREES = 128


class Sliced(NamedTuple):
    """A tensor whose slices are examined. All elements are finite.

    Attributes:
        truth: The reference.
        eager: The tensor of eager, of the same shape.
        compiled: The tensor of compiled code.
        samples: The tensor in nudged eager runs.
    """

    truth: torch.Tensor
    eager: torch.Tensor
    compiled: torch.Tensor
    samples: Sequence[torch.Tensor] = ()


class _Found(NamedTuple):
    """The figures of a tensor along one dimension, before they are read from a GPU.

    Attributes:
        of: The number of the tensor.
        dimension: The dimension.
        slices: The number of slices.
        elements: The number of elements that were examined in each.
        figures: The figures, in the order of :func:`_read`.
    """

    of: int
    dimension: int
    slices: int
    elements: int
    figures: torch.Tensor


def worst_slices(tensors: Sequence[Sliced]) -> list[tuple[SliceError, ...]]:
    """Find the slices of each tensor in which compiled code is off the most compared with eager.

    The figures of a slice are its scale error (its error projected on the reference), its mean
    error, and its root mean square error, all relative to the root mean square of the reference in
    the slice. Scale and mean errors are those apart from what all slices have in common.

    Args:
        tensors: The tensors. All are read at once, because each read waits for a GPU.

    Returns:
        For each tensor one record of each figure, or none where no dimension can be examined.
    """
    found = [one for index, tensor in enumerate(tensors) for one in _figures(index, tensor)]
    best: list[dict[str, SliceError]] = [{} for _ in tensors]
    for one, figures in zip(found, _values(found), strict=True):
        for error in _read(one, figures):
            known = best[one.of].get(error.what)
            if known is None or known.share < error.share:
                best[one.of][error.what] = error
    return [tuple(errors.values()) for errors in best]


def _values(found: Sequence[_Found]) -> list[list[float]]:
    if not found:
        return []
    devices = [one.figures.device for one in found]
    device = max(devices, key=lambda device: device.type != "cpu")
    read: list[list[float]] = torch.stack([one.figures.to(device) for one in found]).tolist()
    return read


def _figures(index: int, tensor: Sliced) -> Iterator[_Found]:
    truth = tensor.truth
    if truth.dim() < 2 or truth.is_complex():
        return
    eps = torch.finfo(tensor.eager.dtype).eps
    for dimension, slices in enumerate(truth.shape):
        elements = truth.numel() // slices
        if not (_FEWEST <= slices <= _MOST and elements >= _FEWEST_ELEMENTS):
            continue
        known, *sides = (
            _along(side, dimension)
            for side in (truth, tensor.eager, tensor.compiled, *tensor.samples)
        )
        figures = _of_dimension(known, [side - known for side in sides], eps)
        yield _Found(index, dimension, slices, known.shape[1], figures)


def _along(tensor: torch.Tensor, dimension: int) -> torch.Tensor:
    """Return the slices along a dimension as rows, in double precision.

    Of a large tensor, evenly spaced elements are taken. The strides are odd, so that these are not
    always of one channel of two.
    """
    moved = tensor.movedim(dimension, 0)
    strides = [1] * moved.dim()
    sizes = [*moved.shape]
    while math.prod(sizes) > max(_ELEMENTS, _FEWEST_ELEMENTS * sizes[0]):
        longest = max(range(1, moved.dim()), key=sizes.__getitem__)
        strides[longest] = 2 * strides[longest] + 1
        sizes[longest] = -(-moved.shape[longest] // strides[longest])
    return moved[tuple(slice(None, None, one) for one in strides)].flatten(1).double()


def _of_dimension(known: torch.Tensor, errors: Sequence[torch.Tensor], eps: float) -> torch.Tensor:
    """Return the figures along one dimension, as :func:`_read` reads them.

    Args:
        known: The reference, a slice per row.
        errors: The errors of eager, of compiled code and of nudged eager runs.
        eps: The resolution of the dtype.
    """
    own = known.square().mean(1)
    power = own.clamp(min=_LEAST_POWER * own.mean())
    counted = own > _COUNTED * own.mean()
    off = torch.stack([error.square().mean(1) / power for error in errors]).sqrt()
    ours = _of_eager(off)
    whole = ours.square().mean(1).sqrt().amax()
    size = ours.amax(0).clamp(min=_ROUNDING * eps).maximum(whole)
    # The error of a slice with few large elements is that of these.
    large = (known.pow(4).mean(1).sqrt() / own).nan_to_num(1.0).clamp(min=1.0) * size
    figures = [counted.sum().double()[None]]
    for amounts in (
        torch.stack([(error * known).mean(1) / power for error in errors]),
        torch.stack([error.mean(1) / power.sqrt() for error in errors]),
    ):
        noise = _noise(_apart(amounts, counted), size, large, counted, known.shape[1])
        figures.append(_worst(_apart(amounts, counted).abs(), noise))
    figures.append(_worst(off, (_OWN * size).maximum(ours.amax())))
    return torch.cat(figures).nan_to_num(0.0, 0.0, 0.0)


def _of_eager(sides: torch.Tensor) -> torch.Tensor:
    """Return the rows of eager and of nudged eager runs. Compiled code has the second row."""
    return torch.cat([sides[:1], sides[2:]])


def _apart(amounts: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Return the errors apart from what all slices have in common.

    Args:
        amounts: The error of each slice, a side per row.
        counted: Which slices count.
    """
    middle = amounts.where(counted, math.nan).nanmedian(1, keepdim=True).values
    return amounts - middle.nan_to_num(0.0, 0.0, 0.0)


def _noise(
    apart: torch.Tensor,
    size: torch.Tensor,
    large: torch.Tensor,
    counted: torch.Tensor,
    elements: int,
) -> torch.Tensor:
    """Return how far off each slice may be by chance.

    It is the less of two estimates. Slices may err as far as eager's slices do. Both sides round
    the same weights, though, and then err alike: a slice may also err as eager's does, and beyond
    that by what the sides differ in other slices, or nudged runs in any.

    Args:
        apart: The error of each slice, a side per row: eager, compiled code and nudged runs.
        size: The root mean square error of each slice in eager.
        large: The same, larger where a slice has few large elements.
        counted: Which slices count.
        elements: The number of elements of a slice.
    """
    slices = apart.shape[1]
    multiple = _multiple(slices, min(slices - 2, _DEGREES))
    least = 1 / math.sqrt(elements)
    ours = _of_eager(apart).abs()
    shares = (ours / size).where(counted, 0.0)
    count = counted.sum()
    spread = (shares.square().sum(1) / (count - 1).clamp(min=1)).sqrt().amax()
    furthest = ours.where(counted, 0.0).amax().maximum(_FURTHEST * shares.amax() * size)
    differ = _apart(apart[1:] - apart[:1], counted).where(counted, 0.0)
    squares = (differ[0] / large).square()
    others = (squares.sum() - squares.amax()).clamp(min=0.0) / (count - 2).clamp(min=1)
    beyond = multiple * others.sqrt().clamp(min=least) * large
    if len(differ) > 1:
        beyond = beyond.maximum(differ[1:].abs().amax())
    alike = ours.amax(0).maximum(_SHARED * size) + beyond
    return alike.minimum(furthest.maximum(multiple * spread.clamp(min=least) * size))


def _worst(off: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return the index of the worst slice, its errors on both sides, and its noise."""
    worst = (off[1] / noise).nan_to_num(0.0, 0.0).argmax()
    # An index on a GPU would wait for it.
    picked = [figures.take(worst) for figures in (off[0], off[1], noise)]
    return torch.stack([worst.double(), *picked])


def _read(one: _Found, figures: Sequence[float]) -> Iterator[SliceError]:
    """Yield the worst slice by each figure, where enough slices show how much they vary."""
    count, *others = figures
    if count < max(_FEWEST, one.slices / 2):
        return
    for index, name in enumerate(("scale", "mean", "root mean square error")):
        worst, eager, compiled, noise = others[4 * index : 4 * index + 4]
        yield SliceError(
            what=name,
            dimension=one.dimension,
            index=int(worst),
            slices=one.slices,
            elements=one.elements,
            eager=eager,
            compiled=compiled,
            noise=noise,
        )


@functools.cache
def _multiple(slices: int, degrees: int) -> float:
    """Return how many standard deviations the slice that is furthest off may be by chance."""
    return t_quantile(1 - _CHANCE / slices, degrees)
