"""How far floating tensors are from what they should be, in figures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, NamedTuple

import torch

from compilegate.observe import nested
from compilegate.records.call import TensorError
from compilegate.records.rounding import QUANTILE, TAIL

#: Elements compared at once: few enough to stay in the processor's caches, many on a GPU.
_CHUNK = {"cpu": 1 << 18, "cuda": 1 << 22}
#: Below so many elements the processor is done before a GPU has begun.
_SMALL = 1 << 12
#: The quantile is taken of no more elements than about these, evenly spread.
_QUANTILE, _QUANTILE_ELEMENTS, _FEWEST = 0.99, 1 << 14, 200
#: Rows are looked at one by one where there are so many, so wide; of about so many elements.
_FEWEST_ROWS, _NARROWEST, _ROWS_ELEMENTS = 4, 16, 1 << 17
#: And columns, where so many rows say of each how far it is off: few large ones would by luck.
_TELLING_ROWS, _COLUMNS_ELEMENTS = 16, 1 << 20
#: Marks such as -1e9 are larger than this, and than this many times the rest (of which a twentieth,
#: the smallest, tells how large it is); they are right to within so many units of their rounding.
MARK, _NEARLY_ALL, _OWN_ROUNDING = 1e4, 0.05, 8.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Errors of one run against the reference, relative to the reference's root mean square."""

    max: float
    rms: float
    projection: float
    quantile: float

    @classmethod
    def recorded(cls, error: TensorError, side: Literal["eager", "compiled"]) -> Figures:
        """Those of one side, from the record."""
        names = (field.name for field in fields(Figures))
        return cls(**{name: getattr(error, f"{side}_{name}") for name in names})

    def at_least(self, noise: float) -> Figures:
        """What they would be at least, were the errors those of some noise."""
        return replace(
            self,
            rms=max(self.rms, noise),
            quantile=max(self.quantile, QUANTILE * noise),
            max=max(self.max, TAIL * noise),
        )


@dataclass(frozen=True, kw_only=True)
class Measured(Figures):
    """Figures with what they are of.

    Attributes:
        numel: Elements that counted: finite on all sides, and no marks.
        scale: Root mean square of the reference over these.
        worst: Index of the largest error, in the flat tensor.
    """

    numel: int
    scale: float
    worst: int

    def over(self, factor: float) -> Measured:
        """The same errors, so many times smaller."""
        return replace(
            self,
            max=self.max / factor,
            rms=self.rms / factor,
            projection=self.projection / factor,
            quantile=self.quantile / factor,
        )


class Measurand(NamedTuple):
    """One tensor to be measured.

    Attributes:
        truth: What it should be; not empty.
        sides: What is measured, of the same shape.
        others: Elements that are not finite here do not count either.
    """

    truth: torch.Tensor
    sides: Sequence[torch.Tensor]
    others: Sequence[torch.Tensor] = ()


def measure(measurands: Sequence[Measurand]) -> list[list[Measured]]:
    """The errors of each side of each tensor, over the elements that are finite on all sides.

    A model has hundreds of small tensors of few sizes, and to begin an operation takes longer than
    what it does to one of them: those of a size are measured together.
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
        most = max(_CHUNK[truth.device.type] // truth.numel(), 1)
        for start in range(0, len(indices), most):
            batch = indices[start : start + most]
            flat = [[tensor.reshape(-1) for tensor in real[index]] for index in batch]
            found |= zip(batch, _measure(flat, sides), strict=True)
    return [found[index] for index in range(len(real))]


def _measure(batch: Sequence[Sequence[torch.Tensor]], sides: int) -> list[list[Measured]]:
    """Those of flat tensors of one size and kind.

    What is read back from a GPU is gathered first: each reading waits for it.
    """
    roles = [_rows(role) for role in zip(*batch, strict=True)]
    device = torch.device("cpu") if roles[0].numel() <= _SMALL else roles[0].device
    roles = [role.to(device) for role in roles]
    beyond = _sentinels_begin(roles[0])
    if beyond is not None and roles[1].dtype.is_floating_point:
        # The largest number of a dtype stands for infinity in masks; a double's is larger.
        largest = torch.finfo(roles[1].dtype).max
        roles[0] = roles[0].where(roles[0].isinf(), roles[0].clamp(-largest, largest))
    sums = [[_Sums() for _ in range(sides)] for _ in batch]
    step = max(_CHUNK[device.type] // len(batch), 1)
    for start in range(0, roles[0].shape[1], step):
        known, *rest = together = _together([role[:, start : start + step] for role in roles])
        finite = torch.isfinite(together.sum(0))
        if beyond is not None:
            finite &= ~_are_sentinels(known, rest, [role.dtype for role in roles[1:]], beyond)
        errors = together[1 : 1 + sides] - known
        # To look first is cheaper on a CPU.
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
    """Flat tensors of one size as rows; one that may be large is not copied."""
    return tensors[0][None] if len(tensors) == 1 else torch.stack([*tensors])


def _together(roles: Sequence[torch.Tensor]) -> torch.Tensor:
    """All in one, in double precision: an operation is launched once for all sides."""
    return torch.stack([*roles]).double()


def _sentinels_begin(truths: torch.Tensor) -> torch.Tensor | None:
    """The magnitude from which elements of each row are no values but marks: the -1e9 of a mask.

    Four orders above nearly everything else in the row, and above ten thousand. Infinite for rows
    without marks; None where there are none at all.
    """
    lowest, highest = torch.stack(torch.aminmax(truths)).tolist()
    if lowest >= -MARK and highest <= MARK:
        return None
    marked = (truths.abs() > MARK).any(1)
    if not bool(marked.any()):  # a NaN hides what is beside it
        return None
    stride = max(truths.shape[1] // _QUANTILE_ELEMENTS, 1) | 1
    sample = truths[:, ::stride].double().abs()
    counted = torch.isfinite(sample) & (sample > 0)
    ordered = sample.where(counted, math.inf).sort(1).values
    ranks = (counted.sum(1) * _NEARLY_ALL).long().clamp(max=ordered.shape[1] - 1)
    usual = ordered.gather(1, ranks[:, None])  # an index that is a tensor would wait
    return (MARK * usual).clamp(min=MARK).where(marked[:, None], math.inf)


def _are_sentinels(
    known: torch.Tensor,
    sides: Sequence[torch.Tensor],
    dtypes: Sequence[torch.dtype],
    beyond: torch.Tensor,
) -> torch.Tensor:
    """Where every side has a mark, right to within its own rounding: beside it nothing is seen."""
    marked = known.abs() > beyond
    for side, dtype in zip(sides, dtypes, strict=True):
        off = (side - known).abs()
        marked &= off <= _OWN_ROUNDING * torch.finfo(dtype).eps * known.abs()
    return marked


@dataclass
class _Sums:
    """What is added up over the chunks of one side.

    Attributes:
        count: Elements that count.
        power: The sum of the reference's squares over these.
        square: That of the errors.
        product: That of errors times the reference.
        largest: The largest error, and where it is.
    """

    count: float = 0.0
    power: float = 0.0
    square: float = 0.0
    product: float = 0.0
    largest: float = 0.0
    worst: int = 0

    def add(self, count: float, norm: float, errors: Sequence[float], start: int) -> None:
        """Add a chunk's.

        Args:
            count: Elements that count.
            norm: That of the reference.
            errors: Of the errors the norm, the product with the reference, the largest, its place.
            start: Where the chunk starts.
        """
        off, product, highest, at = errors
        self.count, self.power = self.count + count, self.power + norm**2
        self.square, self.product = self.square + off**2, self.product + product
        if highest > self.largest:
            self.largest, self.worst = highest, start + int(at)

    def measured(self, quantile: float) -> Measured:
        """The figures."""
        count = self.count or 1  # where nothing is finite, it shows nothing
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
    """Of each row, the error of each side that one element in a hundred exceeds."""
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


def along_rows(truth: torch.Tensor, sides: Sequence[torch.Tensor]) -> tuple[int, list[float]]:
    """How many rows were looked at, and by how much one of each side is too large or too small.

    That is the median over rows: one that jumped says nothing of the others. Where every element
    errs by itself it is far smaller than the elements' errors; where a row was divided by a number
    that is a little off, it is as large.
    """
    width = truth.shape[-1] if truth.dim() > 1 and not truth.is_complex() else 0
    if width < _NARROWEST or truth.numel() < _FEWEST_ROWS * width:
        return 0, [0.0] * len(sides)
    stride = max(truth.numel() // _ROWS_ELEMENTS, 1)
    known = truth.reshape(-1, width)[::stride].double()
    power = known.square().sum(1)
    rows = [side.reshape(-1, width)[::stride].double() for side in sides]
    off = [(((row - known) * known).sum(1) / power).abs().nanmedian() for row in rows]
    found: list[float] = torch.stack(off).nan_to_num(0.0, 0.0).tolist()
    return known.shape[0], found


def worst_column(
    truth: torch.Tensor, eager: torch.Tensor, compiled: torch.Tensor
) -> tuple[int, float, float]:
    """The column in which compiled code is off the most, beside eager; −1 where none is looked at.

    On the column's own scale, which may be far below the tensor's: confidences beside coordinates.

    Returns:
        Its index in the last dimension, and the root mean square errors of eager and of compiled
        code in it, relative to that of the reference.
    """
    width = truth.shape[-1] if truth.dim() > 1 and not truth.is_complex() else 0
    if width < 2 or truth.numel() < _TELLING_ROWS * width:
        return -1, 0.0, 0.0
    stride = max(truth.numel() // _COLUMNS_ELEMENTS, 1) | 1
    known, ours, theirs = (
        side.reshape(-1, width)[::stride].double() for side in (truth, eager, compiled)
    )
    if known.shape[0] < _TELLING_ROWS:
        return -1, 0.0, 0.0
    finite = torch.isfinite(known + ours + theirs)
    scale = _of_columns(known, finite)
    counted = scale.pow(4) / _of_columns(known.square(), finite).square() * known.shape[0]
    off = [_of_columns(side - known, finite) / scale for side in (ours, theirs)]
    off = [side.nan_to_num(0.0, 0.0) for side in off]  # a column of zeros
    whole = (_of_columns(ours - known, finite).norm() / scale.norm()).nan_to_num(0.0)
    telling = counted >= _TELLING_ROWS
    shares = (off[1] / off[0].clamp(min=whole)).nan_to_num(0.0, 0.0)
    worst = shares.where(telling, -1.0).argmax()
    figures = [worst.double(), off[0][worst], off[1][worst], telling.any().double()]
    index, ours_off, theirs_off, any_telling = torch.stack(figures).tolist()
    return (int(index), ours_off, theirs_off) if any_telling else (-1, 0.0, 0.0)


def _of_columns(values: torch.Tensor, finite: torch.Tensor) -> torch.Tensor:
    """Root mean square of each column."""
    return values.where(finite, 0.0).square().mean(0).sqrt()
