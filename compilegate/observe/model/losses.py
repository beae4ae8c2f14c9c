"""Losses of another form than a random functional of all outputs, for probing calls.

Each gives a compiled backward other cotangents: none for some outputs, zeros for some rows, one row
for all, or an infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

#: The cotangents of a loss, given those of all outputs; None where it does not depend on an output.
_Change = Callable[[Sequence[Tensor]], list[Tensor | None]]


@dataclass(frozen=True)
class Loss:
    """A form of a loss.

    Attributes:
        name: What it is, as verdicts name it.
        change: Changes the cotangents.
        is_infinite: Whether one of them is infinite. Only whether an infinity or a NaN arrives in a
            gradient is compared: ``GradScaler`` skips the step then.
        may_cancel: Whether a norm over the batch makes gradients zero but for rounding. Those that
            are only noise in eager are not compared.
    """

    name: str
    change: _Change
    is_infinite: bool = False
    may_cancel: bool = False

    def start(
        self, tensors: Sequence[Tensor], cotangents: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the tensors from which the backward starts, and their cotangents.

        Args:
            tensors: The floating outputs that require a gradient.
            cotangents: Their usual cotangents.
        """
        changed = zip(tensors, self.change(cotangents), strict=True)
        pairs = [(tensor, cotangent) for tensor, cotangent in changed if cotangent is not None]
        return [tensor for tensor, _ in pairs], [cotangent for _, cotangent in pairs]

    def suits(self, outputs: Sequence[Tensor]) -> bool:
        """Whether it is another loss than the usual one.

        Args:
            outputs: The floating outputs that require a gradient. There may be none.
        """
        if not outputs:
            return False
        usual = [torch.ones_like(one) for one in outputs]
        changed = self.change(usual)
        return any(
            now is None or now.stride() != then.stride() or not torch.equal(now, then)
            for now, then in zip(changed, usual, strict=True)
        )


def of_second_rows(cotangents: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the cotangents of a loss of every second row of the first output."""
    first, *others = cotangents
    left = first.clone()
    if left.dim():
        left[1::2] = 0
    return [left, *[None for _ in others]]


def of_last(cotangents: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the cotangents of a loss of the last output alone."""
    *others, last = cotangents
    return [*[None for _ in others], last]


def of_equal_rows(cotangents: Sequence[Tensor]) -> list[Tensor | None]:
    """Return cotangents that are expanded from their first row, as those of a mean over a batch.

    Equal rows add up, where random ones mostly cancel. So they are smaller: gradients of weights
    are as large as usual, and do not overflow in float16.
    """
    return [_expanded(one) if one.dim() else one for one in cotangents]


def _expanded(cotangent: Tensor) -> Tensor:
    return (cotangent[:1] / math.sqrt(max(len(cotangent), 1))).expand_as(cotangent)


def of_infinity(cotangents: Sequence[Tensor]) -> list[Tensor | None]:
    """Return cotangents whose first element is infinite, as where a loss overflows."""
    changed: list[Tensor | None] = []
    for one in cotangents:
        infinite = one.clone()
        infinite[(0,) * one.dim()] = torch.inf
        changed.append(infinite if one.numel() else one)
    return changed


LOSSES = (
    Loss("a loss of every second row of the first output", of_second_rows),
    Loss("a loss of the last output alone", of_last),
    Loss("a loss with one gradient for all rows", of_equal_rows, may_cancel=True),
    Loss("an infinite loss", of_infinity, is_infinite=True),
)
