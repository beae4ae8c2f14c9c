"""Error figures: how far floating tensors are from the reference."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple

import torch

from compilegate.observe import nested
from compilegate.observe.compare.mask_values import are_masks, masks_begin
from compilegate.observe.device import device as device_of
from compilegate.records.call import TensorError
from compilegate.records.rounding import QUANTILE, TAIL

#: For fewer elements, the processor finishes before a GPU starts.
_SMALL = 1 << 12
#: The quantile, the approximate number of evenly spaced elements that it uses, and the fewest
#: elements for which it means anything.
_QUANTILE, _QUANTILE_ELEMENTS, _FEWEST = 0.99, 1 << 14, 200


@dataclass(frozen=True, kw_only=True)
class ErrorFigures:
    """The errors of one run against the reference, relative to the reference's root mean square.

    Attributes:
        max: The largest error.
        rms: The root mean square of the errors.
        projection: The component of the errors along the reference, as a share of the reference.
        quantile: The error that one element in a hundred exceeds.
    """

    max: float
    rms: float
    projection: float
    quantile: float

    @classmethod
    def recorded(cls, error: TensorError, side: Literal["eager", "compiled"]) -> ErrorFigures:
        """Return the figures of one side of a recorded error."""
        names = (field.name for field in fields(ErrorFigures))
        return cls(**{name: getattr(error, f"{side}_{name}") for name in names})

    def at_least(self, noise: float) -> ErrorFigures:
        """Return the figures, raised to those of noise with this root mean square."""
        return replace(
            self,
            rms=max(self.rms, noise),
            quantile=max(self.quantile, QUANTILE * noise),
            max=max(self.max, TAIL * noise),
        )


@dataclass(frozen=True, kw_only=True)
class Measured(ErrorFigures):
    """Error figures and the elements that they describe.

    Attributes:
        numel: The number of elements that count: finite on all sides, and no mask values.
        scale: The root mean square of the reference over these elements.
        worst: The index of the largest error in the flat tensor.
    """

    numel: int
    scale: float
    worst: int

    def over(self, factor: float) -> Measured:
        """Return the same errors, divided by a factor."""
        return replace(
            self,
            max=self.max / factor,
            rms=self.rms / factor,
            projection=self.projection / factor,
            quantile=self.quantile / factor,
        )


class Measurand(NamedTuple):
    """A tensor for :func:`measure_errors`.

    Attributes:
        truth: The correct tensor; not empty.
        sides: The tensors to measure, of the same shape.
        others: Further tensors of the same shape. An element that is not finite in one of them does
            not count.
    """

    truth: torch.Tensor
    sides: Sequence[torch.Tensor]
    others: Sequence[torch.Tensor] = ()


def measure_errors(measurands: Sequence[Measurand]) -> list[list[Measured]]:
    """Return the errors of each side of each tensor, over elements that are finite on all sides.

    A model has hundreds of small tensors of few sizes. Launching an operation takes longer than
    running it on one of them, so tensors of the same size are measured together.
    """
    real = [[*map(nested.real, (one.truth, *one.sides, *one.others))] for one in measurands]
    alike: dict[Hashable, list[int]] = {}
    for index, (truth, *rest) in enumerate(real):
        kinds = [(tensor.device, tensor.dtype) for tensor in (truth, *rest)]
        sides = len(measurands[index].sides)
        alike.setdefault((truth.numel(), sides, *kinds), []).append(index)
    found: dict[int, list[Measured]] = {}
    for indices in alike.values():
        truth, sides = real[indices[0]][0], len(measurands[indices[0]].sides)
        most = max(device_of(truth.device.type).chunk_elements // truth.numel(), 1)
        for start in range(0, len(indices), most):
            batch = indices[start : start + most]
            flat = [[tensor.reshape(-1) for tensor in real[index]] for index in batch]
            found |= zip(batch, _measure(flat, sides), strict=True)
    return [found[index] for index in range(len(real))]


def _measure(batch: Sequence[Sequence[torch.Tensor]], sides: int) -> list[list[Measured]]:
    """Measure flat tensors of one size and kind.

    All figures are read from a GPU at once, because each read waits for it.
    """
    roles = [_rows(role) for role in zip(*batch, strict=True)]
    device = torch.device("cpu") if roles[0].numel() <= _SMALL else roles[0].device
    roles = [role.to(device) for role in roles]
    beyond = masks_begin(roles[0])
    if beyond is not None and roles[1].dtype.is_floating_point:
        # Masks use the largest number of a dtype as infinity, and that of a double is larger.
        largest = torch.finfo(roles[1].dtype).max
        roles[0] = roles[0].where(roles[0].isinf(), roles[0].clamp(-largest, largest))
    sums = [[_Sums() for _ in range(sides)] for _ in batch]
    step = max(device_of(device.type).chunk_elements // len(batch), 1)
    for start in range(0, roles[0].shape[1], step):
        known, *rest = together = _together([role[:, start : start + step] for role in roles])
        finite = torch.isfinite(together.sum(0))
        if beyond is not None:
            finite &= ~are_masks(known, rest, [role.dtype for role in roles[1:]], beyond)
        errors = together[1 : 1 + sides] - known
        # On a CPU, checking first is cheaper.
        if device.type != "cpu" or not bool(finite.all()):
            errors, known = errors.where(finite, 0.0), known.where(finite, 0.0)
        highest, at = errors.abs().max(2)
        products = (errors.transpose(0, 1) @ known[:, :, None])[:, :, 0].T
        whole = torch.stack([finite.sum(1).double(), torch.linalg.vector_norm(known, dim=1)])
        norms = torch.linalg.vector_norm(errors, dim=2)
        figures = torch.cat([whole, norms, products, highest, at.double()])
        for of_one, (count, norm, *others) in zip(sums, figures.T.tolist(), strict=True):
            for index, side in enumerate(of_one):
                side.add(count, norm, others[index::sides], start)
    quantiles = _quantiles(roles[: 1 + sides], beyond)
    return [
        [side.measured(quantile) for side, quantile in zip(*of_one, strict=True)]
        for of_one in zip(sums, quantiles, strict=True)
    ]


def _rows(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack flat tensors of one size as rows. A single tensor is not copied: it may be large."""
    return tensors[0][None] if len(tensors) == 1 else torch.stack([*tensors])


def _together(roles: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack all sides in double precision, so that one operation handles all of them."""
    return torch.stack([*roles]).double()


@dataclass
class _Sums:
    """Sums over the chunks of one side.

    Attributes:
        count: The number of elements that count.
        power: The sum of the squares of the reference.
        square: The sum of the squares of the errors.
        product: The sum of the products of error and reference.
        largest: The largest error.
        worst: The index of the largest error.
    """

    count: float = 0.0
    power: float = 0.0
    square: float = 0.0
    product: float = 0.0
    largest: float = 0.0
    worst: int = 0

    def add(self, count: float, norm: float, errors: Sequence[float], start: int) -> None:
        """Add a chunk.

        Args:
            count: The number of elements that count.
            norm: The norm of the reference.
            errors: The norm of the errors, their product with the reference, the largest error, and
                its index in the chunk.
            start: The index of the first element of the chunk.
        """
        off, product, highest, at = errors
        self.count, self.power = self.count + count, self.power + norm**2
        self.square, self.product = self.square + off**2, self.product + product
        if highest > self.largest:
            self.largest, self.worst = highest, start + int(at)

    def measured(self, quantile: float) -> Measured:
        """Return the figures of the whole tensor."""
        count = self.count or 1  # without finite elements, all figures are zero
        scale = math.sqrt(self.power / count)
        unit = scale or 1.0
        return Measured(
            numel=int(self.count),
            scale=scale,
            max=self.largest / unit,
            rms=math.sqrt(self.square / count) / unit,
            projection=self.product / self.power if self.power else 0.0,
            quantile=quantile / unit,
            worst=self.worst,
        )


def _quantiles(roles: Sequence[torch.Tensor], beyond: torch.Tensor | None) -> list[list[float]]:
    """Return, for each row and side, the error that one element in a hundred exceeds."""
    rows, width = roles[0].shape
    if width < _FEWEST:
        return [[0.0] * (len(roles) - 1)] * rows
    stride = max(width // _QUANTILE_ELEMENTS, 1) | 1  # odd: not always the same channel
    together = _together([role[:, ::stride] for role in roles])
    known = together[0]
    errors = (together[1:] - known).abs()
    if beyond is not None:
        errors = errors.where(known.abs() <= beyond, 0.0)
    rank = max(int(_QUANTILE * known.shape[1]), 1)
    found: list[list[float]] = errors.nan_to_num(0.0, 0.0).kthvalue(rank, dim=2).values.T.tolist()
    return found
