"""The errors of compiled code against the reference, next to eager's own error and noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import torch

from compilegate.observe import nested
from compilegate.observe.compare.error_figures import (
    ErrorFigures,
    Measurand,
    Measured,
    measure_errors,
)
from compilegate.observe.compare.nearest_reference import (
    HALVES,
    Nearest,
    Nudge,
    Sides,
    nearest_references,
)
from compilegate.observe.compare.rows_and_columns import Rows, along_rows, worst_column
from compilegate.observe.compare.slices import Sliced, worst_slices
from compilegate.records.call import SliceError, TensorError
from compilegate.records.rounding import BLIND, EPS, HALF_ERRORS

#: If compiled code errs more than eager by this factor, eager's noise is sampled again. The factors
#: are below the tolerances of the suites, which are narrower in half precision …
_DOUBT, _DOUBT_IN_HALF = 2.25, 1.7
#: … but not if its error is at most this many units of the dtype's resolution.
_BEYOND_DOUBT, _BEYOND_DOUBT_IN_HALF = 2.0, 0.05
#: A slice is in doubt above this multiple of the noise of slices, and these eps, in half precision
#: and in single. Both are below what the suites allow, too.
_DOUBT_IN_SLICES, _DOUBT_IN_SLICES_IN_SINGLE = (1.25, 0.02), (2.5, 8.0)
#: A nudge of more units was made in half precision, in a case in single precision: all numbers that
#: could be nudged are in half precision. Eager may be right to the last bit by luck.
_COARSE = 64.0
#: An error has jumped if it grows faster than the nudge by this factor.
_JUMP = 4.0
#: Runs that differ by rounding have similar errors. A run with this factor more has jumped.
_UNSTEADY = 8.0
#: Compiled code went with eager if it is this many times as close to eager as the reference is.
_WITH_EAGER = 1 / 100
#: In a tensor of more elements, single values do not decide the root mean square error.
_FEW = 4096
#: In a case in half precision, eager computes a tensor in float32 on two conditions: its error is
#: below this share of a unit of half precision, and a nudge of one unit raises it by this factor.
_FAR_BELOW, _FAR_ABOVE = 1 / 16, 256.0


def tensor_errors(
    tensors: Sequence[Sides], known: Mapping[str, TensorError] = MappingProxyType({})
) -> list[TensorError]:
    """Return the errors of tensors, each against the reference that eager is closest to.

    Empty tensors are left out.

    Args:
        tensors: The tensors.
        known: The errors of the same tensors with fewer samples, by name. Errors that no sample can
            change are not measured again.
    """
    tensors = [tensor for tensor in tensors if tensor.eager.numel()]
    settled = {
        sides.name: error
        for sides in tensors
        if (error := known.get(sides.name)) is not None
        and not sides.always
        and is_settled(error, half=sides.half)
    }
    unsettled = [sides for sides in tensors if sides.name not in settled]
    nearest = nearest_references(unsettled)
    _leave_out_strayed(unsettled, nearest)
    drawn = _drawn(unsettled, nearest)
    values, slices = _values(unsettled, nearest), _slices(unsettled, nearest)
    measured = map(_tensor_error, unsettled, nearest, drawn, values, slices)
    found = settled | {error.name: error for error in measured}
    return [found[sides.name] for sides in tensors]


def _leave_out_strayed(tensors: list[Sides], nearest: list[Nearest]) -> None:
    """Leave out references that went another way than eager, where compiled code went with eager.

    The order of two boxes depends on rounding. Next to the other order, no error would show. What
    is zero but for rounding has no scale, so the distances are compared.
    """
    strayed = [
        index
        for index, (sides, near) in enumerate(zip(tensors, nearest, strict=True))
        if sides.references and near.eager.rms > BLIND
    ]
    alone = [replace(tensors[index], references=[]) for index in strayed]
    for index, sides, near in zip(strayed, alone, nearest_references(alone), strict=True):
        if _distance(near.compiled) < _WITH_EAGER * _distance(nearest[index].eager):
            tensors[index], nearest[index] = sides, near


def _distance(errors: Measured) -> float:
    """Return errors in units of the tensor, not of its scale."""
    return errors.rms * (errors.scale or 1.0)


def is_settled(error: TensorError, *, half: bool) -> bool:
    """Whether compiled code errs like eager, so that eager's noise need not be sampled.

    Args:
        error: The error of a tensor.
        half: Whether the case computes in half precision.
    """
    if not error.has_reference or error.samples or are_slices_in_doubt(error):
        return False
    figures = (ErrorFigures.recorded(error, "eager"), ErrorFigures.recorded(error, "compiled"))
    return not is_in_doubt(*figures, error.dtype, half=half)


def _drawn(
    tensors: Sequence[Sides], nearest: Sequence[Nearest]
) -> list[list[tuple[Measured, Nudge]]]:
    """Return the errors of the samples of each tensor; none where compiled code errs like eager."""
    asked = [_asks_samples(*pair) for pair in zip(tensors, nearest, strict=True)]
    measurands = [
        Measurand(near.truth, [one for one, _ in sides.samples], (sides.eager, sides.compiled))
        for sides, near, asks in zip(tensors, nearest, asked, strict=True)
        if asks
    ]
    measured = iter(measure_errors(measurands))
    return [
        [*zip(next(measured), (nudge for _, nudge in sides.samples), strict=True)] if asks else []
        for sides, asks in zip(tensors, asked, strict=True)
    ]


def _asks_samples(sides: Sides, near: Nearest) -> bool:
    dtype = str(nested.real(sides.eager).dtype).removeprefix("torch.")
    doubtful = not sides.references or is_in_doubt(
        near.eager, near.compiled, dtype, half=sides.half
    )
    return bool(sides.samples) and (sides.always or doubtful)


def _values(
    tensors: Sequence[Sides], nearest: Sequence[Nearest]
) -> list[tuple[float, float, float]]:
    """Return the values of eager, compiled code and the reference where compiled code errs most.

    All tensors are read at once, because each read waits for a GPU. Python's floats are on the CPU.
    """
    if not tensors:
        return []
    devices = [sides.eager.device for sides in tensors]
    device = max(devices, key=lambda device: device.type != "cpu")
    columns = []
    for role in ("eager", "compiled", "truth"):
        picked = []
        for sides, near in zip(tensors, nearest, strict=True):
            tensor = near.truth if role == "truth" else getattr(sides, role)
            at = near.compiled.worst
            picked.append(nested.real(tensor).reshape(-1)[at : at + 1])
        columns.append(torch.cat([one.to(device) for one in picked]).double().tolist())
    return [*zip(*columns, strict=True)]


def _slices(
    tensors: Sequence[Sides], nearest: Sequence[Nearest]
) -> Iterator[tuple[SliceError, ...]]:
    """Yield the slices of each tensor that are off the most; none where none are examined.

    Masks, and numbers that are not finite, would hide what the others of their slice show.
    """
    whole = [
        sides.by_slices and bool(sides.references) and near.compiled.numel == sides.eager.numel()
        for sides, near in zip(tensors, nearest, strict=True)
    ]
    found = iter(
        worst_slices(
            [
                Sliced(
                    near.truth,
                    sides.eager,
                    sides.compiled,
                    [one for one, nudge in sides.samples if nudge.units <= 1],
                )
                for sides, near, examined in zip(tensors, nearest, whole, strict=True)
                if examined
            ]
        )
    )
    return (next(found) if examined else () for examined in whole)


def _tensor_error(
    sides: Sides,
    near: Nearest,
    drawn: Sequence[tuple[Measured, Nudge]],
    values: tuple[float, float, float],
    slices: tuple[SliceError, ...],
) -> TensorError:
    eager, compiled = near.eager, near.compiled
    shape, dtype = nested.real(sides.eager).shape, str(nested.real(sides.eager).dtype)
    sampled = [*_noise(eager, near.own if sides.references else None, drawn)]
    noise = [eager, *(errors for errors, _ in sampled)]
    shown = noise if near.hidden is None else [*noise, near.hidden]
    steps = zip(noise, (1.0, *(nudge.units for _, nudge in drawn)), strict=True)
    steady = [errors.rms for errors, nudge in steps if nudge <= 1]
    jumps_already = _jumps_already(steady, dtype.removeprefix("torch."))
    rows, column = Rows(0, [0.0, 0.0], [0.0, 0.0]), (-1, 0.0, 0.0)
    if sides.by_rows and sides.references:
        rows = along_rows(near.truth, (sides.eager, sides.compiled))
        column = worst_column(near.truth, sides.eager, sides.compiled)
    worst = torch.unravel_index(torch.tensor(compiled.worst), shape) if shape else ()
    return TensorError(
        name=sides.name,
        dtype=str(sides.dtype or sides.eager.dtype).removeprefix("torch."),
        numel=compiled.numel,
        alike=_alike(nested.real(sides.eager)),
        scale=compiled.scale,
        has_reference=bool(sides.references),
        samples=len(drawn),
        jumps=any(jumped for _, jumped in sampled) or jumps_already,
        eager_max=max(one.max for one in shown),
        eager_rms=max(one.rms for one in shown),
        eager_projection=max((one.projection for one in noise), key=abs),
        eager_quantile=max(one.quantile for one in shown),
        eager_own=eager.rms,
        compiled_max=compiled.max,
        compiled_rms=compiled.rms,
        compiled_projection=compiled.projection,
        compiled_quantile=compiled.quantile,
        rows=rows.examined,
        eager_rows=rows.medians[0],
        compiled_rows=rows.medians[1],
        eager_high_rows=rows.highs[0],
        compiled_high_rows=rows.highs[1],
        column=column[0],
        eager_column=column[1],
        compiled_column=column[2],
        slices=slices,
        worst_index=tuple(int(i) for i in worst),
        worst_values=values,
    )


def _alike(tensor: torch.Tensor) -> int:
    """Return how often the commonest value occurs in a small tensor in half precision, else 0.

    Equal elements round the same way, so they err as one element does. Zeros are exact.
    """
    if tensor.dtype not in HALVES or tensor.numel() > _FEW:
        return 0
    counts = tensor[tensor != 0].unique(return_counts=True)[1]
    return int(counts.max()) if counts.numel() else 0


def are_slices_in_doubt(error: TensorError) -> bool:
    """Whether a slice is so far off that eager's noise must be sampled again."""
    is_half = error.dtype in ("bfloat16", "float16") or error.eager_rms >= HALF_ERRORS
    factor, floor = _DOUBT_IN_SLICES if is_half else _DOUBT_IN_SLICES_IN_SINGLE
    least = floor * EPS.get(error.dtype, EPS["float32"])
    return any(one.compiled > factor * one.noise + least for one in error.slices)


def is_in_doubt(eager: ErrorFigures, compiled: ErrorFigures, dtype: str, *, half: bool) -> bool:
    """Whether compiled code errs so much more than eager that eager's noise must be sampled again.

    Args:
        eager: The errors of eager.
        compiled: The errors of compiled code.
        dtype: The dtype of the tensor.
        half: Whether the case computes in half precision, even if the tensor does not.
    """
    kind = getattr(torch, dtype)
    if not (kind.is_floating_point or kind.is_complex):  # integers were sampled already
        return False
    narrow = half or dtype in ("bfloat16", "float16")
    factor = _DOUBT_IN_HALF if narrow else _DOUBT
    floor = (_BEYOND_DOUBT_IN_HALF if narrow else _BEYOND_DOUBT) * torch.finfo(kind).eps
    scale = max((eager.rms + floor) / 16, 0.0 if narrow else 2 * floor)
    return (
        compiled.rms > factor * eager.rms + floor
        or compiled.max > factor * eager.max + 8 * floor
        or compiled.quantile > factor * eager.quantile + 2 * floor
        or abs(compiled.projection) > factor * abs(eager.projection) + scale
    )


def _jumps_already(rms: Sequence[float], dtype: str) -> bool:
    """Whether the errors of runs that differ only by rounding are very different."""
    kind = getattr(torch, dtype)
    eps = torch.finfo(kind).eps if kind.is_floating_point or kind.is_complex else 1.0
    return max(rms) > _UNSTEADY * max(min(rms), eps)


def _noise(
    eager: Measured, own: Measured | None, drawn: Sequence[tuple[Measured, Nudge]]
) -> Iterator[tuple[Measured, bool]]:
    """Yield eager's noise at a nudge of one unit for each nudged run, and whether it jumped."""
    if not drawn:
        return
    is_fine = own is not None and _is_fine(own, [errors for errors, _ in drawn], drawn[0][1])
    is_coarse = any(nudge.units > _COARSE for _, nudge in drawn)
    rounds = is_fine or is_coarse
    usual = max(eager.rms, torch.finfo(torch.float32).eps) if rounds else eager.rms
    for errors, nudge in drawn:
        units = nudge.in_f32 if is_fine else nudge.units
        jumped = eager.rms > 0 and errors.rms > _JUMP * units * usual
        yield errors if jumped else errors.over(units), jumped


def _is_fine(eager: ErrorFigures, nudged: Sequence[ErrorFigures], nudge: Nudge) -> bool:
    """Whether eager computes in float32 in a case in half precision: a loss or a softmax.

    Nudges in half precision would then hide that compiled code does not.
    """
    if nudge.in_f32 == nudge.units:
        return False
    unit = nudge.in_f32 / nudge.units * torch.finfo(torch.float32).eps
    lowest = min(errors.rms for errors in nudged)
    return eager.rms < _FAR_BELOW * unit and lowest > _FAR_ABOVE * eager.rms
