"""Whether a model computes with its integers, or uses them as indices and sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from compilegate.observe.model.dispatch_mode import Mode

#: Operators that take any integer, next to the pointwise ones and to views.
_ARITHMETIC = frozenset(
    (
        *("__and__", "__iand__", "__ior__", "__ixor__", "__or__", "__xor__", "addmm", "all"),
        *("amax", "amin", "aminmax", "any", "argmax", "argmin", "argsort", "bmm", "cat", "clone"),
        *("constant_pad_nd", "copy", "copy_", "count_nonzero", "cummax", "cummin", "cumprod"),
        *("cumsum", "detach", "dot", "empty_like", "fill_", "flip", "floor_divide"),
        *("floor_divide_", "full_like", "isin", "lift_fresh", "masked_fill_", "max", "median"),
        *("min", "mm", "mode", "mv", "new_empty", "new_full", "new_ones", "new_zeros"),
        *("ones_like", "prod", "repeat", "roll", "rsub", "select_scatter", "slice_scatter"),
        *("sort", "stack", "sum", "_to_copy", "topk", "trace", "tril", "triu", "zero_"),
        *("zeros_like",),
    )
)
#: Shifts by more than the width of a number have no defined result.
_UNDEFINED = "shift"
#: What operators do that do not compute with integers.
_USES = "takes integers as indices, sizes or shifts"

#: Indices, each with the least and the largest that exist.
_Lookups = list[tuple[torch.Tensor, int, int]]


class IndexUseError(Exception):
    """An operator uses integers as indices, sizes or Python numbers. The message says so."""


class OnlyArithmetic(Mode):
    """Lets operators compute with integers, and refuses any other use of them.

    A large number as an index kills the context of a GPU, and as a size takes all memory.
    """

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator.

        Raises:
            IndexUseError: It does not compute with the integers that it is given.
        """
        given = _pytree.tree_leaves((args, kwargs))
        if any(
            isinstance(one, torch.Tensor) and is_integer(one) for one in given
        ) and not _computes(func):
            raise IndexUseError(f"{func} {_USES}")
        return func(*args, **kwargs)


class WithinRange(OnlyArithmetic):
    """Also lets operators look up elements, if each index is in range."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator.

        Raises:
            IndexUseError: It does not compute with the integers that it is given, or looks up an
                element that does not exist.
        """
        looked_up = _LOOKUPS.get(func._schema.name)
        if looked_up is None or kwargs:
            return super().run(func, args, kwargs)
        if not all(_is_within(*one) for one in looked_up(*args)):
            raise IndexUseError(f"{func} {_USES}")
        return func(*args)


class InRange(Mode):
    """Refuses an index that does not exist, before a GPU loses its context or other memory."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator.

        Raises:
            IndexUseError: It reads or writes an element that does not exist.
        """
        name = func._schema.name
        looked_up = _LOOKUPS.get(name) or _WRITES.get(name.removesuffix("_"))
        if looked_up is not None and not all(_is_within(*one) for one in looked_up(*args)):
            raise IndexUseError(f"{func} gets an index out of range")
        return func(*args, **kwargs)


def is_integer(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds integers, other than booleans."""
    dtype = tensor.dtype
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _is_within(indices: torch.Tensor, least: int, largest: int) -> bool:
    """Whether indices are in range."""
    if not indices.numel():
        return True
    low, high = torch.stack(torch.aminmax(indices)).tolist()
    return bool(least <= low and high <= largest)


def _embedded(table: torch.Tensor, indices: torch.Tensor, *_: object) -> _Lookups:
    return [(indices, 0, len(table) - 1)]


def _selected(table: torch.Tensor, dim: int, indices: torch.Tensor, *_: object) -> _Lookups:
    return [(indices, 0, table.shape[dim] - 1)] if table.dim() else []


def _indexed(table: torch.Tensor, given: Sequence[torch.Tensor | None]) -> _Lookups:
    """Negative indices count from the end, here alone. A mask indexes all of its dimensions."""
    found, dim = [], 0
    for indices in given:
        is_mask = indices is not None and indices.dtype in (torch.bool, torch.uint8)
        if indices is not None and not is_mask:
            found.append((indices, -table.shape[dim], table.shape[dim] - 1))
        dim += indices.dim() if indices is not None and is_mask else 1
    return found


def _indexed_of_three(
    table: torch.Tensor, given: Sequence[torch.Tensor | None], *_: object
) -> _Lookups:
    return _indexed(table, given)


#: By operator: what it looks up, given its arguments.
_LOOKUPS: dict[str, Callable[..., _Lookups]] = {
    "aten::embedding": _embedded,
    "aten::gather": _selected,
    "aten::index": _indexed,
    "aten::index_select": _selected,
}


#: The same of what it writes to, by the name of the operator that writes in place to no argument.
_WRITES: dict[str, Callable[..., _Lookups]] = {
    "aten::index_add": _selected,
    "aten::index_copy": _selected,
    "aten::index_put": _indexed_of_three,
    "aten::scatter": _selected,
    "aten::scatter_add": _selected,
    "aten::scatter_reduce": _selected,
}


def _computes(func: Any) -> bool:
    name = func._schema.name.partition("::")[2]
    if _UNDEFINED in name:
        return False
    return torch.Tag.pointwise in func.tags or func.is_view or name in _ARITHMETIC
