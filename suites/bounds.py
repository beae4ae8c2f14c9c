"""How far compiled numbers may lie from the fp64 reference.

Eager code is not exact either: its own distance from the reference is the noise that compiled code
is allowed, times a factor, plus a floor of a few units of the dtype's resolution. Each tensor is
held on its own scale. A tensor whose eager noise is of the order of its scale can show nothing: it
is *blind*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fixtures.cases import Case
from fixtures.observation import (
    Checked,
    Difference,
    Observation,
    TensorError,
    name_of_call,
)
from reports.noise import (
    BLIND,
    BUFFERS,
    CORRELATED,
    EPS,
    JUMPY,
    QUANTILE,
    TAIL,
    is_blind,
    pooled_noise,
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
HALF = {
    "rms": Allowance(1.75, 0.1),
    "quantile": Allowance(1.75, 0.5),
    "max": Allowance(3.0, 4.0),
    "projection": Allowance(3.0, 0.125),
}
#: What single rows are off by, in half precision, as a multiple of eager's own: at least the first,
#: and the fewer rows were seen, the more is chance. The floor is in eps.
ROWS, FEW_ROWS, ROWS_FLOOR = 1.75, 6.0, 0.01
#: What a column is off by on its own scale, in half precision: a multiple of eager's error there,
#: or in the whole tensor, and eps.
COLUMN = Allowance(4.0, 0.5)
#: Outputs are sums over all before them: this share of their noise may look like a wrong scale.
OF_OUTPUTS = 0.1
#: Noise of so many eps in single precision is no rounding: it has made something jump, and how far
#: the largest jump goes is chance. A jump reaches a row of a matrix, and stands out the more the
#: more rows there are: beyond so many elements by the fourth root.
ROUNDING, MANY = 1000.0, 10_000
#: So it is with noise of this share of a tensor's scale in half precision; its multiples are so
#: many times wider.
CHAOS, CHAOTIC = 0.03, 2.0
#: Code that is wrong is wrong whenever it is called with the same sizes. A gradient in half
#: precision that is out of bounds in one call alone, of several with its sizes, by less than this
#: is a draw of noise: where few roundings decide, the next may be above the largest of nine.
ONCE = 1.5
#: In a blind tensor that is zero, or mere noise, only an error this many times eager's is seen. Up
#: to there it is still held to its noise, if that was sampled.
BLIND_FACTOR = 100.0
MERE_NOISE = 0.5
#: More blind tensors than this share, and a verdict on gradients is inconclusive.
BLIND_SHARE = 0.5
#: Without a reference in float64 and without samples of eager's noise, floors are wider by this.
WITHOUT_REFERENCE = 64.0

#: How many lines of one kind a message shows.
SHOWN = 6


@dataclass(frozen=True)
class Numerics:
    """What holding tensors to the bounds showed.

    Attributes:
        complaints: One line for each tensor that is out of bounds or differs exactly.
        tensors: How many were compared, over all calls.
        floating: How many floating tensors there were.
        blind: Why each tensor that could show nothing could not, by name.
        blind_times: In how many comparisons a tensor was blind.
        worst: Largest root mean square error of a compiled tensor that is not blind.
        ties: Integers that were decided otherwise where eager itself is undecided.
        opaque: What could only be compared by type.
        compared: How many values were compared by more than that.
    """

    complaints: tuple[str, ...] = ()
    tensors: int = 0
    floating: int = 0
    blind: Mapping[str, str] = field(default_factory=dict)
    blind_times: int = 0
    worst: float = 0.0
    ties: int = 0
    opaque: tuple[str, ...] = ()
    compared: int = 0

    @property
    def notes(self) -> str:
        """What a summary says besides: blind tensors, ties, what was not looked into."""
        blind = f", {len(self.blind)} blind" if self.blind else ""
        ties = f", {self.ties} ties decided otherwise" if self.ties else ""
        first = f", {len(self.opaque)} not looked into: {self.opaque[0]}" if self.opaque else ""
        return blind + ties + first

    @property
    def blind_lines(self) -> tuple[str, ...]:
        """The blind tensors, a line each."""
        return shorten([f"blind: {name} {why}" for name, why in self.blind.items()])


def examine(observation: Observation, group: str) -> Numerics:
    """Hold the tensors of a group (``outputs``, ``gradients``, ``state``) to the bounds."""
    differences: list[tuple[int, str]] = []
    excesses: list[_Excess] = []
    blind: dict[str, str] = {}
    tensors = compared = floating = blind_times = ties = 0
    opaque: dict[str, None] = {}
    worst = 0.0
    half = in_half(observation)
    for index, call in enumerate(observation.calls):
        checked: Checked = getattr(call, group)
        differences += [(index, describe_difference(d)) for d in checked.differences]
        tensors += checked.tensors
        compared += checked.tensors - len(checked.opaque)
        floating += len(checked.errors)
        ties += checked.ties
        opaque |= dict.fromkeys(checked.opaque)
        pooled = pooled_noise(checked.errors)
        for error in checked.errors:
            if is_blind(error):
                blind_times += 1
                blind.setdefault(error.name, _why_blind(error))
            else:
                worst = max(worst, error.compiled_rms)
            beyond = _beyond(error, pooled, widening(error, observation), half=half)
            if beyond:
                excesses.append(_Excess(index, error, beyond))
    if half and group == "gradients":
        excesses = [one for one in excesses if not _is_chance(one, excesses, observation)]
    lines = differences + [(one.call, _sentence(one.error, one.beyond[0])) for one in excesses]
    complaints = [
        f"{name_of_call(index, observation.calls[index].sizes)}: {line}"
        for index, line in sorted(lines, key=lambda line: line[0])
    ]
    return Numerics(
        complaints=(*complaints, *_complaints_of_rows(observation, group)),
        tensors=tensors,
        floating=floating,
        blind=blind,
        blind_times=blind_times,
        worst=worst,
        ties=ties,
        opaque=tuple(opaque),
        compared=compared,
    )


@dataclass(frozen=True)
class _Excess:
    """A tensor that is out of bounds in a call, and the checks that it fails."""

    call: int
    error: TensorError
    beyond: tuple[Check, ...]


def _is_chance(one: _Excess, excesses: Sequence[_Excess], observation: Observation) -> bool:
    """Whether a gradient in half precision is out of bounds by little, and in one call alone."""
    sizes = [call.sizes for call in observation.calls]
    return (
        all(check.share < ONCE and check.what != "scale" for check in one.beyond)
        and sizes.count(sizes[one.call]) > 1
        and all(other is one or other.error.name != one.error.name for other in excesses)
    )


def checks_of_rows(observation: Observation, group: str) -> Iterator[tuple[TensorError, Check]]:
    """What single rows are off by in each tensor in half precision, over all calls together.

    What divides a whole row, a norm's statistics, is wrong in another way in each row: in no figure
    of the whole does that show.
    """
    by_name: dict[str, list[TensorError]] = {}
    for call in observation.calls:
        for error in getattr(call, group).errors:
            if error.rows and not is_blind(error):
                by_name.setdefault(error.name, []).append(error)
    for errors in by_name.values():
        rows = sum(error.rows for error in errors)
        eager, compiled = (
            sum(getattr(error, side) * error.rows for error in errors) / rows
            for side in ("eager_rows", "compiled_rows")
        )
        chaotic = any(error.jumps or error.eager_rms > CHAOS for error in errors)
        factor = max(ROWS, 1.25 + FEW_ROWS / math.sqrt(rows)) * (CHAOTIC if chaotic else 1.0)
        floor = ROWS_FLOOR * EPS[errors[0].dtype]
        yield errors[0], Check("scale of single rows", compiled, eager, factor * eager + floor)


def _complaints_of_rows(observation: Observation, group: str) -> Iterator[str]:
    for error, check in checks_of_rows(observation, group):
        if not check.seen <= check.allowed:
            yield (
                f"{error.name} ({error.dtype}): single rows are {check.seen:.3%} too large or too "
                "small, as where a norm has its statistics in low precision "
                f"(eager {check.eager:.3%}, allowed {check.allowed:.3%})"
            )


def untreated(observation: Observation, group: str) -> str:
    """Where the signal treatment was turned off: what can be seen of the first call's tensors."""
    if observation.signal != "off" or not observation.calls:
        return ""
    scales = [
        e.scale for e in getattr(observation.calls[0], group).errors if e.name[:6] != "update"
    ]
    if not scales:
        return ""
    zero = sum(scale == 0.0 for scale in scales)
    return (
        f"; signal off: {len(scales)} {group} of scale {min(scales):.2g} to {max(scales):.2g}"
        f", {zero} zero"
    )


def in_half(observation: Observation) -> bool:
    """Whether the case computes in half precision, or in TF32, which has as short a mantissa."""
    return observation.tf32 or Case.parse(observation.case).precision != "f32"


def widening(error: TensorError, observation: Observation) -> float:
    """The factor on the floors of a tensor: 1 where eager's noise is known."""
    is_exact = observation.reference.partition(";")[0] == "float64" and error.has_reference
    # Nudges do not reach how a parameter rounds when it is stepped.
    sampled = error.samples and not error.name.startswith("update ")
    known = 1.0 if is_exact or sampled else WITHOUT_REFERENCE
    rounded = observation.tf32 and error.dtype == "float32"
    return known * (TF32_EPS / EPS["float32"] if rounded else 1.0)


def _why_blind(error: TensorError) -> str:
    if error.numel == 0:
        return "is nowhere finite"
    if error.scale == 0.0:
        return "is zero"
    return f"is off by {error.eager_rms:.0%} of its scale in eager itself"


@dataclass(frozen=True)
class Check:
    """One figure of a tensor, and what it is held to."""

    what: str
    seen: float
    eager: float
    allowed: float

    @property
    def share(self) -> float:
        """How much of the bound is used."""
        return self.seen / self.allowed if self.allowed else 0.0


def checks(
    error: TensorError, pooled_noise: float, widening: float = 1.0, *, half: bool = False
) -> tuple[Check, ...]:
    """The figures of a tensor beside their bounds.

    Args:
        error: The tensor.
        pooled_noise: Median noise of its group, so that a small tensor whose own noise happens to
            be small is not held to luck.
        widening: Factor on the floors.
        half: Whether it was computed in half precision, whatever its own dtype.
    """
    eps = EPS.get(error.dtype, EPS["float32"]) * widening
    eps *= BUFFERS if error.name.startswith("buffer ") else 1.0
    allowances = HALF if half or error.dtype in ("bfloat16", "float16") else SINGLE
    if error.scale == 0.0 or error.eager_rms > (MERE_NOISE if error.samples else BLIND):
        allowed = BLIND_FACTOR * error.eager_max + allowances["max"].floor * eps
        return (Check("largest error", error.compiled_max, error.eager_max, allowed),)
    noise = max(error.eager_rms, pooled_noise)
    beyond_rounding = allowances is SINGLE and noise > ROUNDING * eps
    chaotic = allowances is HALF and noise > CHAOS
    wider = JUMPY if error.jumps else CHAOTIC if chaotic else 1.0

    def allowed_of(figure: str, noise: float, wider: float = wider) -> float:
        allowance = allowances[figure]
        return wider * allowance.factor * noise + allowance.floor * eps

    jumping = JUMPY if beyond_rounding else wider
    correlated = OF_OUTPUTS if error.name.startswith("output") else CORRELATED
    tail = TAIL * max(error.numel / MANY, 1.0) ** 0.25 if beyond_rounding else TAIL
    largest = allowed_of("max", max(error.eager_max, tail * noise), jumping)
    # What the largest jump alone makes of it, in a tensor of few elements.
    one_jump = largest / math.sqrt(error.numel) if beyond_rounding else 0.0
    column = wider * COLUMN.factor * max(error.eager_column, noise) + COLUMN.floor * eps
    return (
        Check(
            "root mean square error",
            error.compiled_rms,
            error.eager_rms,
            max(allowed_of("rms", noise), one_jump),
        ),
        Check(
            "error of one element in a hundred",
            error.compiled_quantile,
            error.eager_quantile,
            allowed_of("quantile", max(error.eager_quantile, QUANTILE * noise)),
        ),
        Check("largest error", error.compiled_max, error.eager_max, largest),
        *(
            [Check("worst column", error.compiled_column, error.eager_column, column)]
            if error.column >= 0
            else []
        ),
        Check(
            "scale",
            abs(error.compiled_projection),
            abs(error.eager_projection),
            allowed_of("projection", abs(error.eager_projection))
            + wider * noise * max(TAIL / math.sqrt(error.numel), correlated),
        ),
    )


def exceeds(
    error: TensorError, pooled_noise: float, widening: float = 1.0, *, half: bool = False
) -> str:
    """What is out of bounds, as a sentence; empty if nothing is."""
    beyond = _beyond(error, pooled_noise, widening, half=half)
    return _sentence(error, beyond[0]) if beyond else ""


def _beyond(
    error: TensorError, pooled_noise: float, widening: float, *, half: bool
) -> tuple[Check, ...]:
    """The checks that a tensor fails, also where a figure is NaN."""
    found = checks(error, pooled_noise, widening, half=half)
    return tuple(check for check in found if not check.seen <= check.allowed)


def describe_difference(difference: Difference) -> str:
    """A difference as a sentence."""
    if difference.what == "raises":
        return f"eager raises {difference.eager}, compiled raises {difference.compiled}"
    return (
        f"{difference.where}: {difference.what} differ{'s' * (difference.what != 'elements')}: "
        f"eager {difference.eager}, compiled {difference.compiled}"
    )


def _sentence(error: TensorError, check: Check) -> str:
    if check.what == "worst column":
        return (
            f"{error.name} ({error.dtype}): root mean square error of column {error.column} of the "
            f"last dimension is {check.seen:.3g} of its own scale (eager {check.eager:.3g}, "
            f"allowed {check.allowed:.3g})"
        )
    if check.what == "scale":
        direction = "large" if error.compiled_projection > 0 else "small"
        text = (
            f"{error.name} ({error.dtype}): scale is {check.seen:.2%} too {direction} "
            f"(eager {check.eager:.2g}, allowed {check.allowed:.2g})"
        )
    else:
        text = (
            f"{error.name} ({error.dtype}): {check.what} is {check.seen:.3g} of its scale "
            f"{error.scale:.3g} (eager {check.eager:.3g}, allowed {check.allowed:.3g})"
        )
    ours, theirs, truth = error.worst_values
    at = list(error.worst_index)
    return f"{text}; worst at {at}: compiled {theirs:.6g}, eager {ours:.6g}, fp64 {truth:.6g}"


def shorten(complaints: Sequence[str]) -> tuple[str, ...]:
    """The first few lines, and how many more there are."""
    if len(complaints) <= SHOWN:
        return tuple(complaints)
    return (*complaints[:SHOWN], f"… and {len(complaints) - SHOWN} more")
