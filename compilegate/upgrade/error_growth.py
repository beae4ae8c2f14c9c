"""Finds tensors whose compiled error grew or shrank from one run to another.

Eager's own distance from the reference, in either run, is the noise. A tensor is *further*
from the reference only if its error exceeds a multiple of the noise and of the earlier error. These
multiples are smaller than those within one run (:mod:`compilegate.judging.tolerances`), where an
error can be compared only with eager's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from compilegate.records.rounding import (
    BUFFERS,
    CORRELATED,
    EPS,
    JUMPY,
    TAIL,
    is_blind,
    pooled_noise,
)
from compilegate.runs.slim import GROUPS, SlimObservation, SlimTensor


@dataclass(frozen=True)
class Multiples:
    """How far an error may grow: times the noise, and in eps where there is hardly any."""

    rms: float
    largest: float
    scale: float
    floor: float


SINGLE = Multiples(rms=2.0, largest=3.0, scale=3.0, floor=4.0)
HALF = Multiples(rms=1.5, largest=2.5, scale=2.5, floor=0.1)
#: The floor of the largest error is wider by this.
LARGEST_FLOOR = 8.0


@dataclass(frozen=True)
class Growth:
    """A tensor whose compiled error grew.

    Attributes:
        call: Index of the call.
        name: The tensor.
        figure: Which figure grew.
        before: The error in the earlier run, relative to the tensor's scale.
        now: The error in the later run.
        eager: The error of eager, the larger of both runs.
        allowed: The largest error that would not count as growth.
    """

    call: int
    name: str
    figure: str
    before: float
    now: float
    eager: float
    allowed: float

    def __str__(self) -> str:
        eager = f"eager {self.eager:.3g}, " if self.eager != self.now else ""
        return (
            f"{self.name} at call {self.call + 1}: {self.figure} {self.before:.3g} → {self.now:.3g}"
            f" of its scale ({eager}allowed {self.allowed:.3g})"
        )


@dataclass
class ErrorChanges:
    """The tensors of a case whose compiled error changed beyond noise, by group.

    Attributes:
        further: Away from the reference.
        closer: Towards it; their *before* is the error now.
    """

    further: dict[str, list[Growth]] = field(default_factory=dict)
    closer: dict[str, list[Growth]] = field(default_factory=dict)


def error_changes(before: SlimObservation, now: SlimObservation, *, half: bool) -> ErrorChanges:
    """Find the tensors whose compiled error changed between two observations of a case.

    Args:
        before: The case in the earlier run.
        now: The same case in the later run.
        half: Whether the case computes in half precision.
    """
    multiples = HALF if half else SINGLE
    found = ErrorChanges()
    for index, (then, call) in enumerate(zip(before.calls, now.calls, strict=False)):
        for group in GROUPS:
            earlier, later = getattr(then, group).errors, getattr(call, group).errors
            doubtful = [
                (one, other)
                for one, other in _pairs(earlier, later)
                if not _is_within_noise(one, other, multiples) and _is_comparable(one, other)
            ]
            if not doubtful:
                continue
            pooled = pooled_noise((*earlier, *later))
            for one, other in doubtful:
                if growth := _growth(index, one, other, pooled, multiples):
                    found.further.setdefault(group, []).append(growth)
                if growth := _growth(index, other, one, pooled, multiples):
                    found.closer.setdefault(group, []).append(growth)
    return found


#: How many times as far from the reference as before eager must be to count as regressed, by its
#: root mean square error and by its largest. Healthy runs of one PyTorch reached 2.1 and 1.9:
#: kernels that add in another order each time.
EAGER_RMS, EAGER_LARGEST = 4.0, 5.0


def eager_growth(before: SlimObservation, now: SlimObservation) -> dict[str, list[Growth]]:
    """Find the tensors that eager itself computes less exactly than before, by group.

    Args:
        before: The case in the earlier run.
        now: The same case in the later run.
    """
    found: dict[str, list[Growth]] = {}
    for index, (then, call) in enumerate(zip(before.calls, now.calls, strict=False)):
        for group in GROUPS:
            earlier, later = getattr(then, group).errors, getattr(call, group).errors
            pooled = pooled_noise(earlier)
            for one, other in _pairs(earlier, later):
                if is_blind(one) or not (one.has_reference and other.has_reference):
                    continue
                if growth := _eager_growth(index, one, other, pooled):
                    found.setdefault(group, []).append(growth)
    return found


def _eager_growth(call: int, then: SlimTensor, tensor: SlimTensor, pooled: float) -> Growth | None:
    floor = SINGLE.floor * EPS.get(tensor.dtype, EPS["float32"])
    floor *= BUFFERS if tensor.name.startswith("buffer ") else 1.0
    wider = JUMPY if then.jumps or tensor.jumps else 1.0
    noise = max(then.eager_rms, pooled)
    for figure, earlier, later, allowed in (
        (
            "root mean square error",
            then.eager_rms,
            tensor.eager_rms,
            wider * EAGER_RMS * noise + floor,
        ),
        (
            "largest error",
            then.eager_max,
            tensor.eager_max,
            wider * EAGER_LARGEST * max(then.eager_max, TAIL * noise) + LARGEST_FLOOR * floor,
        ),
    ):
        if not later <= allowed and not math.isnan(earlier):  # also where it became NaN
            return Growth(call, tensor.name, f"eager's {figure}", earlier, later, later, allowed)
    return None


def _pairs(
    before: Sequence[SlimTensor], now: Sequence[SlimTensor]
) -> Iterable[tuple[SlimTensor, SlimTensor]]:
    """Pair the tensors of both runs by name; nearly always they are in the same order."""
    if [tensor.name for tensor in before] == [tensor.name for tensor in now]:
        return zip(before, now, strict=True)
    known = {then.name: then for then in before}
    return [(known[tensor.name], tensor) for tensor in now if tensor.name in known]


def _is_within_noise(then: SlimTensor, tensor: SlimTensor, multiples: Multiples) -> bool:
    """Whether both runs are within eager's own noise, as nearly all tensors are."""
    noise = then.eager_rms if then.eager_rms > tensor.eager_rms else tensor.eager_rms
    largest = then.eager_max if then.eager_max > tensor.eager_max else tensor.eager_max
    noise_allowed, largest_allowed = multiples.rms * noise, multiples.largest * largest
    scale_allowed = CORRELATED * noise
    return (
        then.compiled_rms <= noise_allowed
        and tensor.compiled_rms <= noise_allowed
        and then.compiled_max <= largest_allowed
        and tensor.compiled_max <= largest_allowed
        and -scale_allowed <= then.compiled_projection <= scale_allowed
        and -scale_allowed <= tensor.compiled_projection <= scale_allowed
    )


def _is_comparable(then: SlimTensor, tensor: SlimTensor) -> bool:
    """Whether neither run is blind, and both have the same kind of reference."""
    blind = is_blind(then) or is_blind(tensor)
    return not blind and then.has_reference == tensor.has_reference


def _growth(
    call: int, then: SlimTensor, tensor: SlimTensor, pooled: float, multiples: Multiples
) -> Growth | None:
    eps = EPS.get(tensor.dtype, EPS["float32"])
    eps *= BUFFERS if tensor.name.startswith("buffer ") else 1.0
    wider = JUMPY if then.jumps or tensor.jumps else 1.0
    floor = multiples.floor * eps
    noise = max(then.eager_rms, tensor.eager_rms, pooled)
    eager_max = max(then.eager_max, tensor.eager_max)
    eager_scale = max(abs(then.eager_projection), abs(tensor.eager_projection))
    looks_like_scale = noise * max(TAIL / math.sqrt(tensor.numel or 1), CORRELATED)
    scale_before = abs(then.compiled_projection)
    for figure, before, now, eager, allowed in (
        (
            "root mean square error",
            then.compiled_rms,
            tensor.compiled_rms,
            max(then.eager_rms, tensor.eager_rms),
            wider * multiples.rms * max(noise, then.compiled_rms) + floor,
        ),
        (
            "largest error",
            then.compiled_max,
            tensor.compiled_max,
            eager_max,
            wider * multiples.largest * max(eager_max, TAIL * noise, then.compiled_max)
            + LARGEST_FLOOR * floor,
        ),
        (
            "error of scale",
            scale_before,
            abs(tensor.compiled_projection),
            eager_scale,
            wider * (multiples.scale * max(eager_scale, scale_before) + looks_like_scale) + floor,
        ),
    ):
        if not now <= allowed and not math.isnan(before):  # also where it became NaN
            return Growth(call, tensor.name, figure, before, now, eager, allowed)
    return None
