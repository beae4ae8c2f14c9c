"""Statistics of the random numbers in a group of calls.

Each call is a row of a matrix: its flat outputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

#: An element whose mean square is below this share of the average over all elements is rounding.
_LEAST = 1e-6


@dataclass(frozen=True)
class Group:
    """The statistics of one group of calls. See :class:`compilegate.records.observation.Draws`."""

    spread: float
    together: float
    alike: float
    tails: float


def of_group(
    flat: torch.Tensor, outputs: Sequence[Sequence[torch.Tensor]], rounding: float
) -> Group:
    """Return the statistics of a group.

    Args:
        flat: The calls, one row each.
        outputs: The tensors that each call returned.
        rounding: The statistics of single elements leave out those that vary by at most this share
            of their size.
    """
    moves = _moves(flat, rounding)
    return Group(_spread(flat), _together(outputs), _alike(moves), _tails(moves))


def repeats(outputs: Sequence[Sequence[torch.Tensor]]) -> int:
    """Count the pairs of calls that returned exactly the same."""
    return sum(
        all(map(torch.equal, one, other)) for one, other in itertools.combinations(outputs, 2)
    )


def _spread(calls: torch.Tensor) -> float:
    """Return the root mean square distance between calls, over elements on their own scales.

    On a common scale, only the few large elements would count.
    """
    power = calls.square().mean(0)
    if not bool(power.any()):
        return 0.0
    return math.sqrt(float((calls.var(0) / (power + _LEAST * power.mean())).mean()))


def _together(outputs: Sequence[Sequence[torch.Tensor]]) -> float:
    """Return the variance of the sum over a batch, relative to that of independent rows."""
    summed = apart = 0.0
    for calls in zip(*outputs, strict=True):
        if calls[0].dim() > 1 and calls[0].shape[0] > 1:
            stack = torch.stack(list(calls))
            summed += float(stack.sum(1).var(0).sum())
            apart += float(stack.var(0).sum())
    return summed / apart if apart else 1.0


def _moves(calls: torch.Tensor, rounding: float) -> torch.Tensor:
    """Return deviations from the mean over calls, in standard deviations, of elements that vary."""
    deviations = calls - calls.mean(0)
    size = deviations.square().mean(0).sqrt()
    moving = size > rounding * calls.square().mean(0).sqrt()
    return deviations[:, moving] / size[moving]


def _alike(moves: torch.Tensor) -> float:
    """Return the variance of the cosine of two calls: 1 / n for n independent elements.

    If elements share random numbers, in any pattern, it is larger.
    """
    if not moves.numel():
        return 0.0
    cosines = moves @ moves.T / moves.shape[1]
    pairs = torch.triu_indices(len(cosines), len(cosines), 1, device=cosines.device)
    return float(cosines[pairs[0], pairs[1]].var())


def _tails(moves: torch.Tensor) -> float:
    """Return the kurtosis of the deviations: 3 for a normal distribution, 1.8 for a uniform one."""
    return float(moves.pow(4).mean()) if moves.numel() else 0.0
