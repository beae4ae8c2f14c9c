"""Compare the distributions that two sides draw from: shares of elements, and pairs that are equal.

The unit of every test is a call, for calls under different seeds are independent, and elements of
one call need not be. Each statistic is a share of elements in each call. Calls could be swapped
between the sides if both drew alike, so the spread of all calls is the standard error.

Rounding must not count. A share of one side at a threshold is therefore compared with the other
side's share at a slightly higher threshold, in both directions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from compilegate.records.randomness import ShareGap

#: At most this number of tensors of an output is compared, with this number of draws a side in all.
_TENSORS, _NUMBERS = 16, 200_000
#: The most elements that are compared pair by pair, and the most rows and columns of a tensor whose
#: equal neighbours are counted.
_IN_PAIRS, _EDGE = 512, 256
#: The levels at which thresholds lie: for the numbers of a tensor, and for those of each element.
_LEVELS = (0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0)
_OWN_LEVELS = (0.0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 1.0)
#: How far rounding moves a number of a dtype, as a share of its size. A case in single precision
#: may draw numbers in half precision: eager's are below one, and compiled code's rounded up to it.
_ROUNDING = {torch.bfloat16: 0.03, torch.float16: 0.01}
#: Elements are the same numbers if they correlate this much, and different below the second number.
#: They must move in at least this number of calls: few moves coincide by chance.
_SAME, _APART, _MOVES = 0.98, 0.5, 16
#: The spread of groups counts if it is this many times what calls explain. With six groups a side,
#: chance makes it in one of 200 cases.
_MOVING = 2.5


@dataclass(frozen=True)
class Tensor:
    """A tensor of the output.

    Attributes:
        path: Its place in the output.
        factor: What its numbers are multiplied with.
        is_floating: Whether they are rounded.
        rounding: How far its dtype rounds them, as a share of their size.
    """

    path: str
    factor: float
    is_floating: bool
    rounding: float = 0.0


class Drawn:
    """The numbers of one side, of some elements of each tensor.

    Args:
        rounding: How far rounding moves a floating element, as a share of its size.
        calls: The number of calls that will be added.
    """

    def __init__(self, rounding: float, calls: int) -> None:
        self.rounding, self._calls = rounding, calls
        self._chosen: list[torch.Tensor] = []
        self._numbers: list[list[torch.Tensor]] = []
        self._equal: list[list[torch.Tensor]] = []

    def add(self, outputs: Sequence[Sequence[torch.Tensor]], tensors: Sequence[Tensor]) -> None:
        """Keep some numbers of a group of calls.

        Args:
            outputs: The tensors that each call returned, as doubles.
            tensors: What they are.
        """
        shown = outputs[0][:_TENSORS]
        if not self._chosen:
            most = max(_NUMBERS // (self._calls * len(shown)), 16)
            self._chosen = [_choose(tensor, most) for tensor in shown]
            self._numbers = [[] for _ in shown]
            self._equal = [[] for _ in shown]
        for place, chosen in enumerate(self._chosen):
            drawn = [output[place] for output in outputs]
            rows = torch.stack([tensor.flatten()[chosen] for tensor in drawn])
            self._numbers[place].append(rows)
            near = self.near(rows, tensors[place]).mean()
            self._equal[place] += [_equal_neighbours(tensor, near) for tensor in drawn]

    def near(self, numbers: torch.Tensor, tensor: Tensor) -> torch.Tensor:
        """Return how far rounding moves each element: one number a column."""
        if not tensor.is_floating:
            return torch.full_like(numbers[0], tensor.factor / 4)
        power = numbers.square().mean(0)
        return max(self.rounding, tensor.rounding) * (power + power.mean()).sqrt()

    def numbers(self) -> list[torch.Tensor]:
        """The numbers of each tensor: a row a call, a column an element."""
        return [torch.cat(groups) for groups in self._numbers]

    def equal(self) -> list[torch.Tensor]:
        """The shares of equal neighbours in each tensor, in four columns: a row a call."""
        return [torch.stack(calls) for calls in self._equal]


def compare(
    ours: Drawn, theirs: Drawn, *, tensors: Sequence[Tensor], groups: int
) -> tuple[ShareGap, ...]:
    """Return, for each kind of statistic, the share that is furthest from eager's.

    Args:
        ours: The numbers of eager.
        theirs: The numbers of compiled code, with the same shapes.
        tensors: What the tensors are.
        groups: The number of groups that the calls of a side form. Where state moves from group to
            group, their spread is larger than that of calls.
    """
    worst: dict[str, ShareGap] = {}
    places = zip(ours.numbers(), theirs.numbers(), ours.equal(), theirs.equal(), strict=True)
    for tensor, (a, b, equal, their_equal) in zip(tensors, places, strict=False):
        near = ours.near(torch.cat([a, b]), tensor)
        found = [
            *_shares(a, b, near, tensor, groups),
            *_shares_of_equal(equal, their_equal, tensor, groups),
        ]
        for gap in found:
            if gap.errors > worst.get(gap.kind, gap).errors or gap.kind not in worst:
                worst[gap.kind] = gap
    return tuple(worst.values())


def same_pairs(ours: Drawn, theirs: Drawn) -> int:
    """Count the pairs of elements that draw the same number in compiled code alone."""
    each = max(_IN_PAIRS // max(len(ours.numbers()), 1), 1)
    sides = [torch.cat([n[:, :each] for n in side.numbers()], 1) for side in (ours, theirs)]
    deviations = [side - side.mean(0) for side in sides]
    sizes = [d.square().mean(0).sqrt() for d in deviations]
    moves = [d / size.clamp_min(1e-300) for d, size in zip(deviations, sizes, strict=True)]
    count = len(sides[0])
    moving = torch.stack(
        [
            (size > side.rounding * numbers.square().mean(0).sqrt())
            & (move.pow(4).mean(0) < count / _MOVES)
            for side, numbers, move, size in zip((ours, theirs), sides, moves, sizes, strict=True)
        ]
    ).all(0)
    alike = [(move[:, moving].T @ move[:, moving] / count).abs() for move in moves]
    shared = (alike[1] > _SAME) & (alike[0] < _APART)
    return int(shared.triu(1).sum())


def _choose(tensor: torch.Tensor, most: int) -> torch.Tensor:
    """Return the places of some elements, the same in each call and on both sides."""
    order = torch.randperm(tensor.numel(), generator=torch.Generator().manual_seed(0))
    return order[:most].to(tensor.device)


def _equal_neighbours(tensor: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """Return the shares of neighbours that are equal in sorted rows, and in sorted columns.

    Both are followed by those of neighbours that rounding may have moved apart.
    """
    flat = tensor.reshape(-1, tensor.shape[-1] if tensor.dim() else 1)
    columns = tensor.reshape(tensor.shape[0] if tensor.dim() else 1, -1).T
    steps = [lines[:_EDGE, :_EDGE].sort(1).values.diff(dim=1) for lines in (flat, columns)]
    return torch.stack(
        [
            _share((step <= most).flatten()[None])[0] if step.numel() else near * 0
            for most in (near, 3 * near)
            for step in steps
        ]
    )


def _shares(
    ours: torch.Tensor, theirs: torch.Tensor, near: torch.Tensor, tensor: Tensor, groups: int
) -> Iterator[ShareGap]:
    """Compare shares of elements below thresholds: one for all elements, and one for each."""
    if not ours.numel():
        return
    pooled = torch.cat([ours, theirs])
    ascending, flat = pooled.sort(0).values, pooled.flatten().sort().values
    of_all = torch.full_like(near, float(near.mean()))
    for levels, source, step in ((_LEVELS, flat, of_all), (_OWN_LEVELS, ascending, near)):
        for level in levels:
            at = source[round(level * (len(source) - 1))]
            known = float(at) / tensor.factor if at.dim() == 0 else None
            for low in (at + step, at - 3 * step):
                below = [_share(side <= low) for side in (ours, theirs)]
                higher = [_share(side <= low + 2 * step) for side in (ours, theirs)]
                kind = "below" if known is not None else "below own"
                yield _gap(kind, tensor.path, known, (higher[0], below[1]), groups)
                yield _gap(kind, tensor.path, known, (below[0], higher[1]), groups, sign=-1)


def _share(chosen: torch.Tensor) -> torch.Tensor:
    """Return the share of each row that is true."""
    return torch.count_nonzero(chosen, 1).double() / chosen.shape[1]


def _shares_of_equal(
    ours: torch.Tensor, theirs: torch.Tensor, tensor: Tensor, groups: int
) -> Iterator[ShareGap]:
    for equal in (0, 1):
        nearly = equal + 2
        yield _gap("equal", tensor.path, None, (ours[:, nearly], theirs[:, equal]), groups)
        yield _gap("equal", tensor.path, None, (ours[:, equal], theirs[:, nearly]), groups, sign=-1)


def _gap(
    kind: str,
    path: str,
    at: float | None,
    shares: tuple[torch.Tensor, torch.Tensor],
    groups: int,
    *,
    sign: int = 1,
) -> ShareGap:
    """Return how far compiled code's share is above eager's, or below it, in standard errors."""
    ours, theirs = (float(side.mean()) for side in shares)
    calls = torch.cat(shares)
    of_calls = float(calls.var()) * 2 / len(shares[0])
    means = [side.view(groups, -1).mean(1) for side in shares]
    of_groups = sum(float(side.var()) for side in means) / groups
    error = math.sqrt(of_groups if of_groups > _MOVING * of_calls else of_calls)
    gap = sign * (theirs - ours)
    return ShareGap(
        kind=kind,
        output=path,
        at=at,
        eager=ours,
        compiled=theirs,
        errors=gap / error if error and gap > 0 else 0.0,
    )


def tensors_of(
    factors: Mapping[str, float], drawn: Mapping[str, torch.Tensor]
) -> tuple[Tensor, ...]:
    """Describe the tensors of an output that are compared."""
    return tuple(
        Tensor(path, factor, one.is_floating_point(), _ROUNDING.get(one.dtype, 0.0))
        for path, factor in factors.items()
        for one in (drawn[path],)
    )
