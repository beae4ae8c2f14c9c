"""The arguments that a recipe gives itself, as they are before the first call."""

from __future__ import annotations

import copy
from typing import Any

from compilegate.zoo.example import Call, Example


class GivenArguments:
    """The arguments of a recipe's first call, for the probing calls.

    A model may write to its arguments, and compilegate reverses the rows of fixed inputs. So each
    probing call receives a copy of what the recipe gave. Tensors that share memory share it in the
    copy, too.

    Args:
        example: What the recipe returned. If a function makes its arguments, nothing is copied.
    """

    def __init__(self, example: Example) -> None:
        self._kept: tuple[Any, Any] | None = None
        self._trouble: Exception | None = None
        if example.calls:
            first = example.calls[0]
        elif callable(example.inputs) or callable(example.kwargs):
            return
        else:
            first = Call(example.inputs, example.kwargs)
        try:
            self._kept = copy.deepcopy((first.args, first.kwargs))
        except Exception as error:
            self._trouble = error

    def copied(self) -> Call | None:
        """Return a copy of the arguments, without actions; None if a function makes them.

        Raises:
            Exception: The arguments cannot be copied.
        """
        if self._trouble is not None:
            raise self._trouble
        return None if self._kept is None else Call(*copy.deepcopy(self._kept))
