"""How far compiled numbers may lie from the reference.

Eager code is not exact either: its own distance from the reference is the noise that compiled code
is allowed, times a factor, plus a floor of a few units of the dtype's resolution. Errors are
relative to each tensor's own scale. A tensor whose eager noise is as large as its scale cannot show
a fault: it is *blind*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from compilegate.records.call import TensorError
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.rounding import (
    BLIND,
    BUFFERS,
    CORRELATED,
    EPS,
    HALF_ERRORS,
    JUMPY,
    QUANTILE,
    TAIL,
)

#: TF32 keeps ten bits of the mantissa in products of f32.
TF32_EPS = 2.0**-10


@dataclass(frozen=True)
class Allowance:
    """Compiled error allowed in one figure: a multiple of eager's own, and a floor in eps."""

    factor: float
    floor: float


#: By figure, in single precision and in half. Compiled code rounds less often than eager in half
#: precision, where each rounding is large; in single precision it rounds elsewhere.
SINGLE = {
    "rms": Allowance(3.0, 4.0),
    "quantile": Allowance(3.0, 8.0),
    "max": Allowance(4.0, 32.0),
    "projection": Allowance(4.0, 8.0),
}

#: Gradients in single precision are sums over the batch and all positions, often of numbers that
#: cancel. Eager sums in pairs. Compiled code on a CPU sums one after the other, and errs up to nine
#: times as much. On a GPU, both sum in parts. Next to an extreme number, whose few roundings every
#: element shares, they err up to eight times as much there, too, and so do outputs in *train*: the
#: statistics of a batch norm are such sums.
SUMMED = {
    "rms": Allowance(9.0, 4.0),
    "quantile": Allowance(9.0, 8.0),
    "max": Allowance(12.0, 32.0),
    "projection": Allowance(4.0, 32.0),
}
#: How the names of tensors begin that are such sums, or are stepped by them.
_SUMS = ("gradient ", "update ", "parameter ")

HALF = {
    "rms": Allowance(1.75, 0.1),
    "quantile": Allowance(1.75, 0.5),
    "max": Allowance(3.0, 4.0),
    "projection": Allowance(3.0, 0.125),
}

#: In a case in half precision, the most noise that other tensors lend to one that eager computes in
#: single precision: healthy code errs by a quarter of it, and half precision by far more. A tensor
#: of fewer elements may have so small an error by chance.
SINGLE_IN_HALF, FEW_TO_JUDGE = 4 * HALF_ERRORS, 4

#: Allowed error of a column on its own scale in half precision: a multiple of eager's error there,
#: or in the whole tensor, and eps.
COLUMN = Allowance(4.0, 0.5)

#: Allowed figures of single slices along any dimension, as multiples of what may be chance, and in
#: eps: in half precision, of gradients there, and in single. How the names of their checks end.
SLICES, SLICES_OF_GRADIENTS = Allowance(1.75, 0.05), Allowance(2.5, 0.05)
SLICES_IN_SINGLE = Allowance(4.0, 32.0)
OF_A_SLICE = " of a slice"

#: Outputs are sums over all before them: this share of their noise may look like a wrong scale.
OF_OUTPUTS = 0.1

#: Noise of more than this many eps in single precision is not rounding: something jumped, and how
#: far the largest jump goes is chance. A jump affects a row of a matrix, and stands out more among
#: more rows: in a tensor of more than ``MANY`` elements, by the fourth root of their number.
ROUNDING, MANY = 1000.0, 10_000

#: In half precision the same holds for noise above this share of a tensor's scale; the multiples
#: are then wider by the second factor.
CHAOS, CHAOTIC = 0.03, 2.0

#: In a blind tensor, an error fails only above this many times eager's. Below that, sampled noise
#: is the bound.
BLIND_FACTOR = 100.0
#: Up to this share of a tensor's scale, sampled noise gives an ordinary bound.
MERE_NOISE = 0.5

#: The floor, in eps, of a tensor that is zero whatever the numbers. It may be a norm of equal
#: numbers. Compiled code rounds their mean by a unit, and a norm divides by the root of its own
#: ``eps``, 1e-5 by default. That is 316 units of numbers up to 1; numbers up to 4 may be normed.
NORMED = 4 / math.sqrt(1e-5)

#: Without a reference in float64 and without samples of eager's noise, floors are wider by this.
WITHOUT_REFERENCE = 64.0


def in_half(observation: Observation) -> bool:
    """Whether the case computes in half precision, or in TF32, which has as short a mantissa."""
    return observation.tf32 or Case.parse(observation.case).computes_in_half


def has_jumped(error: TensorError) -> bool:
    """Whether eager's noise is more than rounding, in a tensor computed in single precision."""
    return error.eager_rms > ROUNDING * EPS.get(error.dtype, EPS["float32"])


def is_on_cpu(observation: Observation) -> bool:
    """Whether the case computes on a CPU."""
    return Case.parse(observation.case).device == "cpu"


def widening(error: TensorError, observation: Observation) -> float:
    """The factor on the floors of a tensor: 1 where eager's noise is known."""
    is_exact = observation.reference.partition(";")[0] == "float64" and error.has_reference
    # Nudges do not reach how a parameter rounds when it is stepped.
    sampled = error.samples and not error.name.startswith("update ")
    known = 1.0 if is_exact or sampled else WITHOUT_REFERENCE
    rounded = observation.tf32 and error.dtype == "float32"
    return known * (TF32_EPS / EPS["float32"] if rounded else 1.0)


@dataclass(frozen=True)
class Check:
    """One figure of a tensor, and its bound.

    Attributes:
        what: The name of the figure.
        seen: The figure of compiled code.
        eager: The figure of eager.
        allowed: The bound.
        where: The part of the tensor that it is of, if it is not of the whole.
    """

    what: str
    seen: float
    eager: float
    allowed: float
    where: str = ""

    @property
    def share(self) -> float:
        """How much of the bound is used."""
        return self.seen / self.allowed if self.allowed else 0.0


def checks(
    error: TensorError,
    pooled_noise: float,
    widening: float = 1.0,
    *,
    half: bool = False,
    on_cpu: bool = False,
    extreme: bool = False,
    trains: bool = False,
) -> tuple[Check, ...]:
    """Return the figures of a tensor, each with its bound.

    Args:
        error: The tensor.
        pooled_noise: Median noise of its group, so that a small tensor whose own noise happens to
            be small does not get too small a bound.
        widening: Factor on the floors.
        half: Whether it was computed in half precision, whatever its own dtype.
        on_cpu: Whether it was computed on a CPU.
        extreme: Whether inputs were extreme.
        trains: Whether the case trains.
    """
    eps = EPS.get(error.dtype, EPS["float32"]) * widening
    is_half = half or error.dtype in ("bfloat16", "float16")
    is_buffer = error.name.startswith("buffer ")  # a running statistic is a sum, too
    eps *= BUFFERS if is_buffer else 1.0
    is_sum = error.name.startswith(_SUMS) or (extreme and (is_buffer or trains))
    is_summed = is_sum and (on_cpu or extreme)
    allowances = HALF if is_half else SUMMED if is_summed else SINGLE
    if error.scale == 0.0 or error.eager_rms > (MERE_NOISE if error.samples else BLIND):
        floor = NORMED if error.always_zero and not is_half else allowances["max"].floor
        allowed = BLIND_FACTOR * error.eager_max + floor * eps
        return (Check("largest error", error.compiled_max, error.eager_max, allowed),)
    lent = _lent(pooled_noise, error) if is_half and not extreme else pooled_noise
    noise = max(error.eager_rms, lent)
    beyond_rounding = not is_half and noise > ROUNDING * eps
    chaotic = is_half and noise > CHAOS
    wider = JUMPY if error.jumps else CHAOTIC if chaotic else 1.0
    rounded = _one_number(error) | _stored(error)
    least = SINGLE if is_half and _is_in_single(error) else allowances

    def allowed_of(figure: str, noise: float, wider: float = wider) -> float:
        allowance = allowances[figure]
        floor = max(allowance.floor, least[figure].floor, rounded.get(figure, 0.0))
        return wider * allowance.factor * noise + floor * eps

    jumping = JUMPY if beyond_rounding else wider
    correlated = OF_OUTPUTS if error.name.startswith("output") else CORRELATED
    tail = TAIL * max(error.numel / MANY, 1.0) ** 0.25 if beyond_rounding else TAIL
    largest = allowed_of("max", max(error.eager_max, tail * noise), jumping)
    # In a tensor of few elements, the largest jump alone decides the root mean square.
    one_jump = largest / math.sqrt(error.numel or 1) if beyond_rounding else 0.0
    column = wider * COLUMN.factor * max(error.eager_column, noise) + COLUMN.floor * eps
    return (
        Check(
            "root mean square error",
            error.compiled_rms,
            error.eager_rms,
            max(allowed_of("rms", noise), one_jump) + error.unit,
        ),
        Check(
            "error of one element in a hundred",
            error.compiled_quantile,
            error.eager_quantile,
            allowed_of("quantile", max(error.eager_quantile, QUANTILE * noise)) + error.unit,
        ),
        Check("largest error", error.compiled_max, error.eager_max, largest + 2 * error.unit),
        *(
            [Check("worst column", error.compiled_column, error.eager_column, column)]
            if error.column >= 0
            else []
        ),
        *([] if extreme or beyond_rounding else _checks_of_slices(error, eps, wider, is_half)),
        Check(
            "scale",
            abs(error.compiled_projection),
            abs(error.eager_projection),
            allowed_of("projection", abs(error.eager_projection))
            + (wider * noise + error.unit) * max(TAIL / math.sqrt(error.numel or 1), correlated),
        ),
    )


def _lent(pooled_noise: float, error: TensorError) -> float:
    """Return the noise of the group that a tensor of a case in half precision may have.

    Eager computes some tensors in single precision there, outside of autocast or in a region that
    disables it. Compiled code must, too.
    """
    return min(pooled_noise, SINGLE_IN_HALF) if _is_in_single(error) else pooled_noise


def _is_in_single(error: TensorError) -> bool:
    """Whether eager computes a tensor in single precision, also in a case in half precision."""
    is_known = error.has_reference and error.numel >= FEW_TO_JUDGE
    errs_little = max(error.eager_rms, error.eager_own) < HALF_ERRORS
    return error.dtype == "float32" and is_known and errs_little


def _checks_of_slices(
    error: TensorError, eps: float, wider: float, is_half: bool
) -> Iterator[Check]:
    """Yield the checks of single slices. A case in half precision computes some in single."""
    allowance = SLICES_OF_GRADIENTS if error.name.startswith("gradient ") else SLICES
    if not is_half or error.eager_rms < HALF_ERRORS:
        allowance = SLICES_IN_SINGLE
    for one in error.slices:
        yield Check(
            f"{one.what}{OF_A_SLICE}",
            one.compiled,
            one.eager,
            wider * allowance.factor * one.noise + allowance.floor * eps,
            f"slice {one.index} of the {one.slices} along dimension {one.dimension}",
        )


def _stored(error: TensorError) -> dict[str, float]:
    """Return the error by figure, in eps, where a parameter in half precision is stored.

    Each step rounds it, so more than one element in a hundred may be one unit off.
    """
    is_stored = error.name.startswith("parameter ") and error.dtype in ("bfloat16", "float16")
    return {"quantile": 1.0} if is_stored else {}


def _one_number(error: TensorError) -> dict[str, float]:
    """Return the error by figure, in eps, where one number is rounded the other way.

    That matters in a tensor of few elements. All elements of this number err then, and it may be
    twice the scale.
    """
    if error.alike <= 1:
        return {"rms": 1 / math.sqrt(error.numel or 1)}
    share = error.alike / (error.numel or 1)
    figures = {"rms": 2 * math.sqrt(share), "projection": 2 * share}
    return figures | ({"quantile": 2.0} if share > 0.01 else {})


def beyond(
    error: TensorError, pooled_noise: float, widening: float, **computed: bool
) -> tuple[Check, ...]:
    """The checks that a tensor fails, also where a figure is NaN.

    Args:
        error: As in :func:`checks`.
        pooled_noise: Likewise.
        widening: Likewise.
        **computed: How it was computed, likewise.
    """
    found = checks(error, pooled_noise, widening, **computed)
    return tuple(check for check in found if not check.seen <= check.allowed)
