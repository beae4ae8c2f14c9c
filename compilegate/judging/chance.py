"""What is out of bounds by chance.

Bounds hold for nearly every draw. A case compares thousands of tensors, so a few draws lie above
them, by little. Wrong code is wrong in every call of one kind at the same sizes. Calls with the
same numbers, such as those in another memory layout, are one draw.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
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
#: these sizes, and for a slice in half precision. A ReLU of a late layer opens in one call in
#: twenty, and four nudged runs often miss it. It changes one filter of hundreds.
ONCE_JUMPED = 2.0
#: A step moves a parameter by its gradient, so its error is a multiple of the gradient's. It may be
#: this much larger for compiled code than for eager, since rounding adds to both.
STEPPED = 1.1


@dataclass(frozen=True)
class Excess:
    """A tensor that is out of bounds, and the checks that it fails."""

    group: int
    error: TensorError
    beyond: tuple[Check, ...]

    def is_within(self, factor: float) -> bool:
        """Whether each check is failed by less than a factor, and the scale is right."""
        return all(check.share < factor and check.what != "scale" for check in self.beyond)


@dataclass(frozen=True)
class Groups:
    """The groups of tensors of a case.

    Attributes:
        tensors: The errors of each group.
        kinds: What distinguishes the calls, by the number of the group.
    """

    tensors: Sequence[Sequence[TensorError]]
    kinds: Sequence[Hashable]

    def draws_like(self, one: Excess) -> int:
        """Return how many draws there are in calls of the kind in which a tensor is out of bounds.

        What lacks the tensor is another draw.
        """
        return len(
            {
                tuple(_draw(each) for each in errors if each.name == one.error.name)
                for errors, kind in zip(self.tensors, self.kinds, strict=True)
                if kind == self.kinds[one.group]
            }
        )


def _draw(error: TensorError) -> tuple[float, float]:
    """Return what is the same in calls with the same numbers, and hardly in others."""
    return error.scale, error.eager_own


def certain(
    excesses: Sequence[Excess], groups: Groups, observation: Observation
) -> tuple[Excess, ...]:
    """Leave out what is out of bounds by chance.

    Args:
        excesses: What is out of bounds.
        groups: The groups of tensors.
        observation: The case.
    """
    wrong = [one for one in excesses if not _is_chance(one, excesses, groups, observation)]
    found = {(one.group, one.error.name) for one in wrong}
    return tuple(one for one in wrong if not _is_as_right_as_its_gradient(one, found, groups))


def _is_as_right_as_its_gradient(
    one: Excess, wrong: Collection[tuple[int, str]], groups: Groups
) -> bool:
    """Whether an update errs by what its gradient errs, which is within its bounds."""
    kind, _, parameter = one.error.name.partition(" ")
    name = f"gradient {parameter}"
    if kind != "update" or (one.group, name) in wrong:
        return False
    return any(
        one.error.compiled_rms * gradient.eager_rms
        <= STEPPED * one.error.eager_rms * gradient.compiled_rms
        for gradient in groups.tensors[one.group]
        if gradient.name == name and gradient.eager_rms
    )


def _is_chance(
    one: Excess, excesses: Sequence[Excess], groups: Groups, observation: Observation
) -> bool:
    """Whether a tensor is out of bounds by little, and only once."""
    half, name = in_half(observation), one.error.name
    jumps = half or has_jumped(one.error)
    may = {
        "gradient": jumps,
        "update": jumps,
        "buffer": half,
    }.get(name.partition(" ")[0], False)
    of_slices = all(check.what.endswith(OF_A_SLICE) for check in one.beyond)
    may |= of_slices or (half and all(_is_of_a_part(check) for check in one.beyond))
    is_buffer = name.startswith("buffer ")
    alike = [other for other in excesses if other.error.name == name]
    return (
        may
        and all(each.is_within(ONCE_JUMPED if of_slices or not half else ONCE) for each in alike)
        and groups.draws_like(one) > 1
        and (
            len({_draw(each.error) for each in alike}) == 1
            or (is_buffer and _is_kept(alike, groups))
        )
    )


def _is_of_a_part(check: Check) -> bool:
    return check.what.endswith(OF_A_SLICE) or check.what == "worst column"


def _is_kept(alike: Sequence[Excess], groups: Groups) -> bool:
    """Whether a buffer is out of bounds by one draw, which its mean keeps for the next call.

    Wrong code is wrong from the first call on, and becomes no better.
    """
    found = sorted({one.group for one in alike})
    return len(found) == 2 and found[1] - found[0] == 1 and found[0] * 2 >= len(groups.kinds)
