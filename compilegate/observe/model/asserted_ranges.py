"""The ranges of indices and probabilities that a GPU's kernels assert.

A CPU raises an error where a number is out of range. A GPU loses its context, so that nothing runs
there afterwards, or it reads and writes other memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from compilegate.observe.model.dispatch_mode import Mode

#: Tensors, each with the least and the largest number that it may have.
_Bounded = list[tuple[torch.Tensor, float, float]]


class OutOfRangeError(Exception):
    """An operator gets a number that its kernel for a GPU refuses. The message names it."""


class InRange(Mode):
    """Refuses what a GPU's kernels assert: an index that does not exist, a probability above 1."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator.

        Raises:
            OutOfRangeError: It gets a number out of range.
        """
        if not all(is_within(*one) for one in _indices(func, args)):
            raise OutOfRangeError(f"{func} gets an index out of range")
        if not all(is_within(*one) for one in _chances(func, args)):
            raise OutOfRangeError(f"{func} gets a probability out of range")
        return func(*args, **kwargs)


def asserts_range(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether a GPU's kernel of an operator asserts the range of a number that it gets."""
    return bool(_indices(func, args) or _chances(func, args))


def _indices(func: Any, args: tuple[Any, ...]) -> _Bounded:
    name = func._schema.name
    looked_up = LOOKUPS.get(name) or _WRITES.get(name.removesuffix("_"))
    return looked_up(*args) if looked_up is not None else []


def _chances(func: Any, args: tuple[Any, ...]) -> _Bounded:
    found = _CHANCES.get(func._schema.name)
    return found(*args) if found is not None else []


def is_within(numbers: torch.Tensor, least: float, largest: float) -> bool:
    """Whether numbers are in range. NaN is not."""
    if not numbers.numel():
        return True
    low, high = torch.stack(torch.aminmax(numbers)).tolist()
    return bool(least <= low and high <= largest)


def _embedded(table: torch.Tensor, indices: torch.Tensor, *_: object) -> _Bounded:
    return [(indices, 0, len(table) - 1)]


def _selected(table: torch.Tensor, dim: int, indices: torch.Tensor, *_: object) -> _Bounded:
    return [(indices, 0, table.shape[dim] - 1)] if table.dim() else []


def _indexed(table: torch.Tensor, given: Sequence[torch.Tensor | None]) -> _Bounded:
    """Negative indices count from the end, here alone. A mask indexes all of its dimensions."""
    found: _Bounded = []
    dim = 0
    for indices in given:
        is_mask = indices is not None and indices.dtype in (torch.bool, torch.uint8)
        if indices is not None and not is_mask:
            found.append((indices, -table.shape[dim], table.shape[dim] - 1))
        dim += indices.dim() if indices is not None and is_mask else 1
    return found


def _indexed_of_three(
    table: torch.Tensor, given: Sequence[torch.Tensor | None], *_: object
) -> _Bounded:
    return _indexed(table, given)


#: By operator: what it looks up, given its arguments.
LOOKUPS: dict[str, Callable[..., _Bounded]] = {
    "aten::embedding": _embedded,
    "aten::gather": _selected,
    "aten::index": _indexed,
    "aten::index_select": _selected,
}


#: The same of what it writes to, by the name of the operator that writes in place to no argument.
_WRITES: dict[str, Callable[..., _Bounded]] = {
    "aten::index_add": _selected,
    "aten::index_copy": _selected,
    "aten::index_put": _indexed_of_three,
    "aten::scatter": _selected,
    "aten::scatter_add": _selected,
    "aten::scatter_reduce": _selected,
}


def _of_classes(chances: torch.Tensor, targets: torch.Tensor, *_: object) -> _Bounded:
    return [(chances, 0, 1), (targets, 0, 1)]


def _drawn(chances: torch.Tensor, *_: object) -> _Bounded:
    return [(chances, 0, 1)]


def _drawn_in_place(_: torch.Tensor, chances: object = None) -> _Bounded:
    return [(chances, 0, 1)] if isinstance(chances, torch.Tensor) else []


def _weighed(weights: torch.Tensor, *_: object) -> _Bounded:
    return [(weights, 0, torch.finfo(weights.dtype).max)]


#: By operator: the probabilities that it gets, given its arguments.
_CHANCES: dict[str, Callable[..., _Bounded]] = {
    "aten::bernoulli": _drawn,
    "aten::bernoulli_": _drawn_in_place,
    "aten::binary_cross_entropy": _of_classes,
    "aten::multinomial": _weighed,
}
