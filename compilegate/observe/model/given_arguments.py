"""The arguments that a recipe gives itself, as they are before the first call."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from typing import Any

from torch.utils.weak import WeakIdKeyDictionary

from compilegate.observe import nested
from compilegate.observe.model.calls import fixed_arguments, has_fixed_inputs
from compilegate.zoo.example import Call, Example

#: By the first tensor of fixed inputs or listed calls: all their tensors, and a copy of the inputs
#: and keywords as they were before any call.
_FIRST: WeakIdKeyDictionary = WeakIdKeyDictionary()


def with_own_inputs(example: Example) -> Example:
    """Return an example whose fixed inputs, or listed calls, no earlier build of the recipe has.

    A recipe may give tensors that a zoo file makes once. Then eager, compiled code and the
    reference would write to the same memory, and reverse the same rows. The first build keeps its
    tensors, which may share memory with the module. So do actions, which may write to them.
    """
    acts = any(call.before or call.after for call in example.calls)
    if acts or not (example.calls or has_fixed_inputs(example)):
        return example
    given = [(call.args, call.kwargs) for call in example.calls] or [fixed_arguments(example)]
    tensors = [*nested.tensors(given, "").values()]
    if not tensors:
        return example
    known = _FIRST.get(tensors[0])
    if known is not None and known[0] == [*map(id, tensors)]:
        return _with(example, copy.deepcopy(known[1]))
    with contextlib.suppress(Exception):  # a lock, or a tensor with a history, cannot be copied
        _FIRST[tensors[0]] = [*map(id, tensors)], copy.deepcopy(given)
    return example


def _with(example: Example, given: list[tuple[Any, ...]]) -> Example:
    """Return an example with other arguments."""
    if not example.calls:
        (inputs, kwargs) = given[0]
        return dataclasses.replace(example, inputs=inputs, kwargs=kwargs)
    pairs = zip(example.calls, given, strict=True)
    calls = [dataclasses.replace(call, args=own[0], kwargs=own[1]) for call, own in pairs]
    return dataclasses.replace(example, calls=calls)


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
