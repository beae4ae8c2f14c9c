"""Objects of other classes than containers: their attributes, and whether two classes are alike."""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

#: Types whose objects are values, or whose attributes are not the result of a computation.
CLOSED = (
    *(bool, int, float, complex, str, bytes, type(None), set, frozenset, enum.Enum),
    *(torch.Tensor, nn.Module),
    *(type, FunctionType, MethodType, BuiltinFunctionType, ModuleType),
)


def is_array(value: object) -> bool:
    """Whether a value is an array or a scalar of NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def attributes_of(value: object) -> dict[str, Any]:
    """Return the attributes that an object of its own holds, by name; those in slots, too.

    The result is empty for a value, a tensor, a module or a function.
    """
    if isinstance(value, CLOSED):
        return {}
    slots = [getattr(made, "__slots__", ()) for made in type(value).__mro__]
    names = [name for some in slots for name in ((some,) if isinstance(some, str) else some)]
    in_slots = [name for name in names if not name.startswith("__") and hasattr(value, name)]
    return {name: getattr(value, name) for name in in_slots} | getattr(value, "__dict__", {})


def set_attributes(value: object, attributes: Mapping[str, Any]) -> None:
    """Restore the attributes of an object that have changed, in slots, too. New ones go."""
    now = attributes_of(value)
    for name, held in attributes.items():
        if name not in now or now[name] is not held:
            object.__setattr__(value, name, held)
    for name in now.keys() - attributes.keys():
        object.__delattr__(value, name)


def set_class_attributes(made: type, attributes: Mapping[str, Any]) -> None:
    """Restore the attributes of a class that have changed."""
    now = vars(made)
    for name, value in attributes.items():
        if name not in now or now[name] is not value:
            type.__setattr__(made, name, value)


def name_of(made: type) -> str:
    """Return the qualified name of a class, without the marks of local scopes."""
    return made.__qualname__.replace("<locals>.", "")


def alike(ours: type, theirs: type) -> bool:
    """Whether two classes are the same, or one that a builder made twice under one name."""
    if ours is theirs:
        return True
    is_local = "<locals>" in ours.__qualname__
    return is_local and (ours.__module__, ours.__qualname__) == (
        theirs.__module__,
        theirs.__qualname__,
    )
