"""What differs exactly between eager and compiled code, as a sentence."""

from __future__ import annotations

import re

from compilegate.records.call import Difference


def describe_difference(difference: Difference) -> str:
    """Return a difference as a sentence."""
    if difference.what == "raises":
        return f"eager raises {difference.eager}, compiled raises {difference.compiled}"
    if difference.what == "required":
        return f"{difference.where}: {difference.compiled}, where {difference.eager} is required"
    differs = "differ" if difference.what == "elements" else "differs"
    if difference.what == "stride" and _is_padded(difference.eager, difference.compiled):
        differs += " by padding"
    return (
        f"{difference.where}: {difference.what} {differs}: "
        f"eager {difference.eager}, compiled {difference.compiled}"
    )


def _is_padded(eager: str, compiled: str) -> bool:
    """Whether compiled strides are those of wider rows, up to the next multiple of 4 or 8.

    Inductor pads so the products of a GPU, to the alignment of its memory.
    """
    strides = [[int(stride) for stride in re.findall(r"\d+", text)] for text in (eager, compiled)]
    pairs = [*zip(*strides, strict=False)]
    changed = [pair for pair in pairs if pair[0] != pair[1]]
    if len(strides[0]) != len(strides[1]) or not changed:
        return False
    width, padded = min(changed)
    is_aligned = any(width % by and padded == width + -width % by for by in (4, 8))
    wider = [pair for pair in pairs if pair[0] >= width]
    return is_aligned and all(ours * padded == theirs * width for ours, theirs in wider)
