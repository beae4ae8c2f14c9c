"""One call made again and again: compiled code may be right in some calls and wrong in others."""

from __future__ import annotations

from typing import Any

import torch

from compilegate.observe import nested
from compilegate.observe.compare import exact
from compilegate.observe.model.result import copies
from compilegate.records.call import Difference

#: How many units in the last place two results of one call may be apart: sums in an order that the
#: threads of a GPU decide.
_UNITS = 64


class Repetition:
    """How far apart the outputs of one side are, of calls with the same inputs."""

    def __init__(self) -> None:
        self._first: dict[str, torch.Tensor] = {}
        self._calls = 0
        self.is_same = True
        self.farthest: tuple[float, str, int] = (0.0, "", 0)

    def add(self, output: Any) -> None:
        """Compare the output of one more call with that of the first.

        Args:
            output: What the call returned.
        """
        self._calls += 1
        floating = {
            path: tensor
            for path, tensor in nested.output_tensors(output).items()
            if (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel()
        }
        copied = {  # dense, and in a dtype that has operators
            path: nested.real(copy) for path, copy in copies(floating).items()
        }
        if self._calls == 1:
            self._first = copied
        for path, first in self._first.items():
            other = copied.get(path)
            if other is None or other.shape != first.shape:
                self.is_same = False
            elif not torch.equal(first.nan_to_num(), other.nan_to_num()):
                self.is_same = False
                rounding = _UNITS * torch.finfo(floating[path].dtype).eps
                if (share := _share(first, other)) > rounding:
                    self.farthest = max(self.farthest, (share, path, self._calls))


def unlike(eager: Repetition, compiled: Repetition) -> tuple[Difference, ...]:
    """Return where compiled code returns something else in one of the calls, and eager does not."""
    share, path, call = compiled.farthest
    if not eager.is_same or share == 0.0:
        return ()
    text = f"in repetition {call}, {share:.3g} of its largest number from the first"
    return (exact.difference(path, "value", "the same each time", text),)


def _share(first: torch.Tensor, other: torch.Tensor) -> float:
    """Return how far apart two tensors are, as a share of the largest number."""
    wide, apart = first.double().nan_to_num(), other.double().nan_to_num()
    largest = float(wide.abs().max())
    return float((wide - apart).abs().max()) / (largest or 1.0)
