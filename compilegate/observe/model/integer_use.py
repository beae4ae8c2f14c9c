"""Whether a model computes with its integers, or uses them as indices and sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree

from compilegate.observe.model.asserted_ranges import LOOKUPS, is_within
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
        looked_up = LOOKUPS.get(func._schema.name)
        if looked_up is None or kwargs:
            return super().run(func, args, kwargs)
        if not all(is_within(*one) for one in looked_up(*args)):
            raise IndexUseError(f"{func} {_USES}")
        return func(*args)


def is_integer(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds integers, other than booleans."""
    dtype = tensor.dtype
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _computes(func: Any) -> bool:
    name = func._schema.name.partition("::")[2]
    if _UNDEFINED in name:
        return False
    return torch.Tag.pointwise in func.tags or func.is_view or name in _ARITHMETIC
