"""What is out of bounds by chance.

Bounds hold for nearly every draw. A case compares thousands of tensors, so a few draws lie above
them, by little. Wrong code is wrong in every call of one kind at the same sizes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from compilegate.judging.tolerances import OF_A_SLICE, Check, has_jumped, in_half
from compilegate.records.call import TensorError
from compilegate.records.observation import Observation

#: A gradient, the update of a parameter, a buffer or a column of an output in half precision may be
#: out of bounds in only one of several calls of a kind, by less than this factor: where few
#: roundings decide, one draw may lie above the largest of nine. A buffer that keeps what it has
#: seen may be so in two calls that follow each other.
ONCE = 1.5
#: The same for a gradient or an update in single precision that jumps, at one of several calls of
#: these sizes. A ReLU of a late layer opens in one call in twenty, and four nudged runs often miss
#: it.
ONCE_JUMPED = 2.0


@dataclass(frozen=True)
class Excess:
    """A tensor that is out of bounds, and the checks that it fails."""

    group: int
    error: TensorError
    beyond: tuple[Check, ...]

    def is_within(self, factor: float) -> bool:
        """Whether each check is failed by less than a factor, and the scale is right."""
        return all(check.share < factor and check.what != "scale" for check in self.beyond)


def certain(
    excesses: Sequence[Excess], kinds: Sequence[Hashable], observation: Observation
) -> tuple[Excess, ...]:
    """Leave out what is out of bounds by chance.

    Args:
        excesses: What is out of bounds.
        kinds: What distinguishes calls, by the number of the group of tensors.
        observation: The case.
    """
    return tuple(one for one in excesses if not _is_chance(one, excesses, kinds, observation))


def _is_chance(
    one: Excess, excesses: Sequence[Excess], kinds: Sequence[Hashable], observation: Observation
) -> bool:
    """Whether a tensor is out of bounds by little, and only once."""
    half, name = in_half(observation), one.error.name
    jumps = half or has_jumped(one.error)
    may = {
        "gradient": jumps,
        "update": jumps,
        "buffer": half,
    }.get(name.partition(" ")[0], False)
    may |= all(
        check.what.endswith(OF_A_SLICE) or (half and check.what == "worst column")
        for check in one.beyond
    )
    alike = [other for other in excesses if other.error.name == name]
    return (
        may
        and all(each.is_within(ONCE if half else ONCE_JUMPED) for each in alike)
        and kinds.count(kinds[one.group]) > 1
        and (len(alike) == 1 or (name.startswith("buffer ") and _is_one_draw(alike, len(kinds))))
    )


def _is_one_draw(alike: Sequence[Excess], calls: int) -> bool:
    """Whether a buffer is out of bounds by one draw, which its mean keeps for the next call.

    Wrong code is wrong from the first call on, and becomes no better.
    """
    groups = sorted({one.group for one in alike})
    return len(groups) == 2 and groups[1] - groups[0] == 1 and groups[0] * 2 >= calls
