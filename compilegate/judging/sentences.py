"""Describes a tensor that is out of bounds."""

from __future__ import annotations

from compilegate.judging.tolerances import Check
from compilegate.records.call import TensorError

_FEWEST_DIGITS = 6


def sentence(error: TensorError, check: Check) -> str:
    """Return a check that a tensor fails as a sentence."""
    if check.what == "worst column":
        return (
            f"{error.name} ({error.dtype}): root mean square error of column {error.column} of the "
            f"last dimension is {check.seen:.3g} of its own scale (eager {check.eager:.3g}, "
            f"allowed {check.allowed:.3g})"
        )
    if check.where:
        return (
            f"{error.name} ({error.dtype}): {check.what} is off by {check.seen:.3g} of its own "
            f"size, in {check.where} (eager {check.eager:.2g}, allowed {check.allowed:.2g})"
        )
    if check.what == "scale":
        direction = "large" if error.compiled_projection > 0 else "small"
        text = (
            f"{error.name} ({error.dtype}): scale is too {direction} by {check.seen:.3g} of itself "
            f"(eager {check.eager:.2g}, allowed {check.allowed:.2g})"
        )
    else:
        text = (
            f"{error.name} ({error.dtype}): {check.what} is {check.seen:.3g} of its scale "
            f"{error.scale:.3g} (eager {check.eager:.3g}, allowed {check.allowed:.3g})"
        )
    eager, compiled, truth = error.worst_values
    digits = _digits(eager, compiled)
    at = list(error.worst_index)
    text += "; compiled code leaves it unchanged" if error.unwritten else ""
    text += f"; worst at {at}: compiled {compiled:.{digits}g}, eager {eager:.{digits}g}"
    return (
        f"{text}, reference {truth:.{digits}g}" if error.has_reference else f"{text}, no reference"
    )


def _digits(eager: float, compiled: float) -> int:
    """Return how many digits tell two numbers apart, at least six."""
    if repr(eager) == repr(compiled):
        return _FEWEST_DIGITS
    return next(
        (n for n in range(_FEWEST_DIGITS, 17) if f"{eager:.{n}g}" != f"{compiled:.{n}g}"), 17
    )
