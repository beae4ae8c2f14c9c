"""Whether a model computes with its integers, or uses them as indices and sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree

from compilegate.observe.model.dispatch_mode import Mode

#: Operators that take any integer, next to the pointwise ones and to views.
_ARITHMETIC = frozenset(
    (
        *("all", "amax", "amin", "any", "argmax", "argmin", "argsort", "cat", "clone"),
        *("constant_pad_nd", "copy", "copy_", "cumsum", "detach", "empty_like", "flip"),
        *("full_like", "lift_fresh", "max", "min", "ones_like", "prod", "repeat", "roll"),
        *("sort", "stack", "sum", "_to_copy", "topk", "zeros_like"),
    )
)
#: Shifts by more than the width of a number have no defined result.
_UNDEFINED = "shift"


class IndexUseError(Exception):
    """An operator uses integers as indices, sizes or Python numbers. The message names it."""


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
            raise IndexUseError(str(func))
        return func(*args, **kwargs)


def is_integer(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds integers, other than booleans."""
    dtype = tensor.dtype
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _computes(func: Any) -> bool:
    name = func._schema.name.partition("::")[2]
    if _UNDEFINED in name:
        return False
    return torch.Tag.pointwise in func.tags or func.is_view or name in _ARITHMETIC
