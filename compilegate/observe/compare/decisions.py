"""Decisions: numbers on which eager and the reference agree exactly, and compiled code does not.

``floor``, ``round``, ``//`` and ``argmax`` decide. Where a decision is nearly a tie, a nudged eager
run may give another answer. Then it stays open whether compiled code is right. An answer that no
eager run gives is wrong.
"""

from __future__ import annotations

import torch

from compilegate.observe import nested
from compilegate.observe.compare.nearest_reference import GRADIENTS, Sides
from compilegate.records.call import Decision, TensorError
from compilegate.records.rounding import EPS

#: Compiled code decides otherwise if it is further off than this many units of the resolution:
#: the floors of the bounds on single elements.
_ROUNDING, _ROUNDING_IN_HALF = 32.0, 4.0
#: The number of different answers from which on they are a spread, and not decisions.
_SPREAD = 4
#: Near ties are rare. More of them than this share of the elements, or so few, are examined.
_RARE, _FEW = 0.01, 4


def answered(ours: torch.Tensor, theirs: torch.Tensor, samples: list[torch.Tensor]) -> torch.Tensor:
    """Return for each element whether nudged eager runs explain compiled code's answer.

    They do if one of them gives it. Where their answers spread, it may also lie between them or
    beyond them by the width of the spread.

    Args:
        ours: Eager's elements, flat.
        theirs: Those of compiled code.
        samples: Those of nudged eager runs.
    """
    if not samples:
        return torch.zeros_like(ours, dtype=torch.bool)
    runs = torch.stack([ours, *samples]).double()
    theirs = theirs.double()
    given = ((runs[1:] - theirs).abs() <= 1e-6 * theirs.abs()).any(0)
    lowest, highest = torch.aminmax(runs, dim=0)
    spreads = (runs.sort(0).values.diff(dim=0) != 0).sum(0) + 1 >= _SPREAD
    width = highest - lowest
    within = (theirs >= lowest - width) & (theirs <= highest + width)
    return given | (spreads & within)


def of_floats(sides: Sides, error: TensorError) -> Decision | None:
    """Return how compiled code decides otherwise; None unless eager agrees with float64 exactly.

    A gradient must agree with all references: one that passes a cast to half precision is rounded
    as by the reference that keeps the cast, and decides nothing. A tensor of single precision that
    agrees was computed in it, also in a case in half precision.
    """
    exact = error.has_reference and error.numel and error.eager_own == 0.0
    if not exact or error.compiled_max == 0.0 or sides.eager.is_complex():
        return None
    truths = [one for one in sides.references if one.dtype.itemsize > sides.eager.dtype.itemsize]
    half = error.dtype in ("bfloat16", "float16")
    eps = EPS.get(error.dtype, EPS["float32"]) * (_ROUNDING_IN_HALF if half else _ROUNDING)
    least = eps * (error.scale or 1.0)
    ours, theirs = sides.eager.double(), sides.compiled.double()
    unequal = ((theirs - ours).abs() > least) & torch.isfinite(ours)
    agrees = [bool(((ours == truth) | ~unequal).all()) for truth in truths]
    needed = all if sides.name.startswith(GRADIENTS) else any
    if not (agrees and needed(agrees)):
        return None
    return _decision(sides, unequal)


def of_integers(sides: Sides, unequal: torch.Tensor) -> Decision | None:
    """Return how compiled code decides near ties otherwise than eager and the reference.

    Args:
        sides: The integers on all sides.
        unequal: Where compiled code differs from eager, and nudged eager runs do, too.
    """
    agreed = unequal.clone()
    for truth in sides.references[:1]:
        agreed &= sides.eager == truth.to(sides.eager.device)
    return _decision(sides, agreed) if sides.references else None


def _decision(sides: Sides, otherwise: torch.Tensor) -> Decision | None:
    count = int(otherwise.sum())
    if not count or _FEW < count <= _RARE * otherwise.numel():
        return None
    chosen = otherwise.reshape(-1).nonzero()[:, 0]
    ours, theirs, *samples = (
        side.to(sides.eager.device).reshape(-1)[chosen]
        for side in (sides.eager, sides.compiled, *(sample for sample, _ in sides.samples))
    )
    ties = answered(ours, theirs, samples)
    others = (~ties).nonzero()
    shown = int(others[0]) if len(others) else 0
    shape = nested.real(sides.eager).shape
    index = [int(i) for i in torch.unravel_index(chosen[shown].cpu(), shape)] if shape else []
    return Decision(
        where=sides.name,
        eager=f"{ours[shown].item():.9g} at {index}",
        compiled=f"{theirs[shown].item():.9g}",
        elements=count,
        answered=int(ties.sum()),
    )
