"""What a group of calls that differ in their random numbers says of these.

A call is a row of a matrix: what it returned, flat.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

#: An element whose mean square is below this share of all elements' is rounding, not a value.
_LEAST = 1e-6


@dataclass(frozen=True)
class Group:
    """The statistics of one group of calls: see :class:`compilegate.records.observation.Draws`."""

    spread: float
    together: float
    alike: float
    tails: float


def of_group(
    flat: torch.Tensor, outputs: Sequence[Sequence[torch.Tensor]], rounding: float
) -> Group:
    """All of a group's statistics.

    Args:
        flat: The calls, a row each.
        outputs: The tensors that each of them returned.
        rounding: Elements that move by no more than this share of their size are left out of what
            is said of single elements.
    """
    moves = _moves(flat, rounding)
    return Group(_spread(flat), _together(outputs), _alike(moves), _tails(moves))


def repeats(outputs: Sequence[Sequence[torch.Tensor]]) -> int:
    """How many pairs of calls gave the very same."""
    return sum(
        all(map(torch.equal, one, other)) for one, other in itertools.combinations(outputs, 2)
    )


def _spread(calls: torch.Tensor) -> float:
    """How far calls, a row each, are apart: root mean square over elements, each on its own scale.

    On a common scale the few large elements would be all that is seen.
    """
    power = calls.square().mean(0)
    if not bool(power.any()):
        return 0.0
    return math.sqrt(float((calls.var(0) / (power + _LEAST * power.mean())).mean()))


def _together(outputs: Sequence[Sequence[torch.Tensor]]) -> float:
    """Variance of the sum over a batch, over the sum of its rows' variances: 1 if independent."""
    summed = apart = 0.0
    for calls in zip(*outputs, strict=True):
        if calls[0].dim() > 1 and calls[0].shape[0] > 1:
            stack = torch.stack(list(calls))
            summed += float(stack.sum(1).var(0).sum())
            apart += float(stack.var(0).sum())
    return summed / apart if apart else 1.0


def _moves(calls: torch.Tensor, rounding: float) -> torch.Tensor:
    """Deviations from the mean over calls, in standard deviations, of the elements that move."""
    deviations = calls - calls.mean(0)
    size = deviations.square().mean(0).sqrt()
    moving = size > rounding * calls.square().mean(0).sqrt()
    return deviations[:, moving] / size[moving]


def _alike(moves: torch.Tensor) -> float:
    """How alike two calls are by chance: 1 / n, if n elements move independently of each other.

    Where elements share random numbers, in whatever pattern, fewer move by themselves.
    """
    if not moves.numel():
        return 0.0
    cosines = moves @ moves.T / moves.shape[1]
    pairs = torch.triu_indices(len(cosines), len(cosines), 1, device=cosines.device)
    return float(cosines[pairs[0], pairs[1]].var())


def _tails(moves: torch.Tensor) -> float:
    """Mean fourth power of deviations, in standard deviations: 3 if normal, 1.8 if uniform."""
    return float(moves.pow(4).mean()) if moves.numel() else 0.0
