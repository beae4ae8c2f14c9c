"""Change the numbers that modules have as attributes, such as a scale or a dropout rate.

Compiled code contains them as constants. Only a guard notices that a user has changed one.
"""

from __future__ import annotations

import math

from torch import nn

from compilegate.observe.model.holder import holder_of
from compilegate.observe.model.state import OF_EVERY_MODULE

#: A number becomes smaller by this factor: a rate stays a rate, a positive number positive.
_FACTOR = 0.75
#: Smaller numbers are there to be negligible. They become this number, which is not.
_SMALL = 0.01


class ChangedNumbers:
    """The floating attributes of a model's modules, changed until :meth:`put_back`.

    Integers stay: nearly all of them are sizes. Zero stays, too: it turns something off.

    Args:
        model: The model.
    """

    def __init__(self, model: object) -> None:
        self._kept: list[tuple[nn.Module, str, float]] = []
        for module in holder_of(model).modules():
            for name, value in vars(module).items():
                is_number = type(value) is float and math.isfinite(value) and value != 0.0
                if is_number and name not in OF_EVERY_MODULE:
                    self._kept.append((module, name, value))
        for module, name, value in self._kept:
            vars(module)[name] = _FACTOR * value if abs(value) >= _SMALL else _SMALL

    def put_back(self) -> None:
        """Restore the numbers."""
        for module, name, value in self._kept:
            vars(module)[name] = value
