"""The signs ``z / |z|`` of complex denormals, which depend in eager on how a tensor lies in memory.

A CPU computes whole vectors by code that returns them, and other elements by code that returns
infinities: the reciprocal of a denormal overflows. The gradient of ``abs`` is such a sign.
"""

from __future__ import annotations

from typing import Any

import torch

from compilegate.observe.model.dispatch_mode import Mode


class OtherSigns(Mode):
    """Computes each sign of a complex denormal as eager does in other places.

    Attributes:
        changed: Whether one is another number now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.changed = False

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator."""
        made = func(*args, **kwargs)
        if func._schema.name != "aten::sgn" or not made.is_complex():
            return made
        numbers = args[0]
        right = func(numbers.to(torch.complex128)).to(made.dtype)
        in_no_vector = func(torch.stack((numbers, numbers), -1)[..., 0])
        lost = right.isfinite() & ~in_no_vector.isfinite()
        self.changed |= bool(lost.any())
        return torch.where(lost, torch.where(made.isfinite(), in_no_vector, right), made)
