"""Standard deviations of the largest and the least numbers: eager on a CPU computes in float64.

The square of such a deviation is beyond float32. Compiled code sums squares in float32 and gets an
infinity, which a division hides: ``(x - mean) / std`` is zero. The square of a denormal number is
zero there, and so is the gradient of the deviation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree

from compilegate.observe.model.dispatch_mode import Mode

_OPERATORS = frozenset(("aten::std", "aten::std_mean"))


def _overflows(deviation: torch.Tensor) -> torch.Tensor:
    return deviation.isfinite() & deviation.square().isinf()


class Deviations(Mode):
    """Notices standard deviations that are finite, but whose squares overflow in their dtype.

    Attributes:
        overflow: Whether there was one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.overflow = False

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator."""
        made = func(*args, **kwargs)
        if func._schema.name in _OPERATORS:
            deviation: torch.Tensor = _pytree.tree_leaves(made)[0]
            self.overflow |= bool(_overflows(deviation).any())
        return made


class SquaredDeviations(Mode):
    """Gives each standard deviation the number that compiled code gets, which squares it.

    It becomes its square where that is zero or infinite in its dtype, and it is neither.

    Attributes:
        changed: Whether one is another number now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed = False

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator."""
        made = func(*args, **kwargs)
        if func._schema.name not in _OPERATORS:
            return made
        deviation, *means = made if isinstance(made, tuple) else (made,)
        square = deviation.square()
        lost = ((square == 0) & (deviation != 0)) | _overflows(deviation)
        self.changed |= bool(lost.any())
        deviation = torch.where(lost, square, deviation)
        return (deviation, *means) if means else deviation
