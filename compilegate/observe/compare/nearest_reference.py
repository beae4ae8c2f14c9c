"""Which of its references a tensor of eager is closest to, and what both share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from compilegate.observe import nested
from compilegate.observe.compare.error_figures import (
    ErrorFigures,
    Measurand,
    Measured,
    measure_errors,
)

HALVES = (torch.bfloat16, torch.float16)

#: A reference in half precision that equals eager was computed as eager was, and shows no rounding.
#: Its distance counts as the first number of units of the dtype's resolution away, if it is below
#: the second number.
_COPIED, _EQUAL = 2.0, 1 / 64
#: The dtypes that a cast to half precision lowers.
_WIDE = (torch.float32, torch.float64)
#: Names of tensors whose rounding to half precision may be elsewhere in compiled code.
GRADIENTS = ("gradient ", "update ")
#: A number near the middle of two that half precision has may be rounded to either. The one is this
#: many times as far from the other as from the number.
_OTHER_WAY = 2.0


class Nudge(NamedTuple):
    """The size of the nudge of an eager run, in units in the last place.

    Attributes:
        units: The size in units of the case's precision, or of float64 if all numbers have it.
        in_f32: The same in single and double precision; in half precision, the size in units of
            float32, which is large.
    """

    units: float
    in_f32: float


@dataclass(frozen=True)
class Sides:
    """One tensor on all sides.

    Attributes:
        name: The name of the tensor.
        eager: The tensor of eager.
        compiled: The tensor of compiled code, in the same shape.
        references: The reference and its alternative. If there are none, eager replaces them.
        samples: The tensor in nudged eager runs, each with its nudge.
        half: Whether the case computes in half precision, even if the tensor does not.
        by_rows: Whether to examine rows and columns, too.
        by_slices: Whether to examine slices along each dimension, too.
        always: Whether to use the samples even if compiled code errs no more than eager.
        dtype: The recorded dtype, if it differs from that of ``eager``.
    """

    name: str
    eager: torch.Tensor
    compiled: torch.Tensor
    references: Sequence[torch.Tensor]
    samples: Sequence[tuple[torch.Tensor, Nudge]] = ()
    half: bool = False
    by_rows: bool = False
    by_slices: bool = False
    always: bool = False
    dtype: torch.dtype | None = None


@dataclass(frozen=True)
class Nearest:
    """The errors of both sides against the reference that eager is closest to.

    Attributes:
        eager: The errors of eager.
        compiled: The errors of compiled code.
        own: The errors of eager against the reference without any rounding.
        truth: The reference that eager is closest to.
        hidden: The rounding of half precision that this reference shares with eager, in a tensor of
            single precision; None if there is none.
    """

    eager: Measured
    compiled: Measured
    own: Measured
    truth: torch.Tensor
    hidden: ErrorFigures | None = None


def nearest_references(tensors: Sequence[Sides]) -> list[Nearest]:
    """Return the reference that eager is closest to for each tensor, and the errors against it."""
    candidates = [
        [Measurand(truth, (sides.eager, sides.compiled)) for truth in references]
        for sides in tensors
        for references in [sides.references or [sides.eager]]
    ]
    measured = iter(measure_errors([*itertools.chain.from_iterable(candidates)]))
    found = []
    for sides, some in zip(tensors, candidates, strict=True):
        errors = [(next(measured), one.truth) for one in some]
        own = errors[0][0][0]
        unit = _unit_in_half(sides) if len(errors) > 1 else 0.0
        shown = [eager.rms if eager.rms > _EQUAL * unit else 0.0 for (eager, _), _ in errors]
        distances = [rms or _COPIED * unit for rms in shown]
        nearest = distances.index(min(distances))
        (eager, compiled), truth = errors[nearest]
        hidden = []
        if sides.eager.dtype not in HALVES and not shown[nearest] and any(shown):
            hidden.append(ErrorFigures(max=unit, rms=unit, projection=0.0, quantile=unit))
        if _is_sum_with_halves(sides, eager, own):
            hidden.append(own.over(1 / _OTHER_WAY))
        most = max(hidden, key=lambda figures: figures.rms, default=None)
        found.append(Nearest(eager, compiled, own, truth, most))
    return found


def _is_sum_with_halves(sides: Sides, eager: ErrorFigures, own: ErrorFigures) -> bool:
    """Whether a gradient is a sum in single precision of which a part was cast to half precision.

    Eager and a reference that keeps the cast then round this part alike. Only the distance to the
    reference without any rounding shows that there is such a part.

    Args:
        sides: The tensor.
        eager: The errors of eager against the nearest reference.
        own: The errors of eager against the reference without any rounding.
    """
    return (
        sides.eager.dtype in _WIDE
        and sides.name.startswith(GRADIENTS)
        and eager.rms < _EQUAL * own.rms
        and own.rms < torch.finfo(torch.bfloat16).eps / 2
    )


def _unit_in_half(sides: Sides) -> float:
    """Return the resolution of half precision in a tensor, or in its values; 0 without it.

    The gradient of a cast to half precision has the values of half precision. In an
    output, such values come from a cast that the code asks for, and compiled code must keep it.
    """
    tensor = nested.real(sides.eager)
    is_gradient = sides.name.startswith(GRADIENTS)
    for half in HALVES if is_gradient and tensor.dtype in _WIDE else ():
        if bool(((tensor == tensor.to(half)) | tensor.isnan()).all()):
            return torch.finfo(half).eps
    return torch.finfo(tensor.dtype).eps if tensor.dtype in HALVES else 0.0
