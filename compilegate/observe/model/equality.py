"""Equality of two values, of plain objects and of tensors bit by bit."""

from __future__ import annotations

import enum
import math
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from compilegate.observe import objects

#: Types whose values ``==`` can compare.
PLAIN = (
    *(bool, int, str, bytes, type(None), complex, set, frozenset, range, slice, enum.Enum),
    *(torch.dtype, torch.device, torch.Size),
)


def equal_objects(ours: Any, theirs: Any) -> bool:
    """Whether two objects have like types and, if it is a plain one, the same value.

    The members of an enumeration that each build defines again are equal by name and value.
    """
    if not objects.alike(type(ours), type(theirs)):
        return False
    if isinstance(ours, enum.Enum) and type(ours) is not type(theirs):
        return (ours.name, ours.value) == (theirs.name, theirs.value)
    if isinstance(ours, complex):
        return equal_objects(ours.real, theirs.real) and equal_objects(ours.imag, theirs.imag)
    if isinstance(ours, float):
        return bool(ours == theirs) or (math.isnan(ours) and math.isnan(theirs))
    return not isinstance(ours, PLAIN) or bool(ours == theirs)


def is_same(ours: Any, theirs: Any) -> bool:
    """Whether two values are the same, tensors bit by bit and on one device. NaN equals NaN."""
    if not (isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor)):
        return equal_objects(ours, theirs)
    if (ours.shape, ours.dtype, ours.device) != (theirs.shape, theirs.dtype, theirs.device):
        return False
    if is_traceable_wrapper_subclass(ours) and objects.alike(type(ours), type(theirs)):
        names, _ = ours.__tensor_flatten__()  # such as a quantised weight, which has no operators
        return all(is_same(getattr(ours, name), getattr(theirs, name)) for name in names)
    return torch.equal(ours, theirs) or bool(
        ((ours == theirs) | (ours.isnan() & theirs.isnan())).all()
    )
