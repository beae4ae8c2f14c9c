"""Exact differences between two values: of kind, shape, elements; where one is not finite."""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import Any

import torch

from compilegate.records.call import Difference

#: Values that are equal or not.
PLAIN = (
    *(bool, int, str, bytes, type(None), complex, set, frozenset, range, slice, enum.Enum),
    *(torch.dtype, torch.device, torch.Size),
)


def difference(where: str, what: str, eager: object, compiled: object) -> Difference:
    """What both sides have, as text."""
    return Difference(where=where, what=what, eager=str(eager), compiled=str(compiled))


def touched(name: str, before: Any, after: Any) -> Difference:
    """Something that eager leaves alone and compiled code changes."""
    if not (isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor)):
        return difference(name, "value", f"leaves it {brief(before)}", brief(after))
    if before.shape != after.shape:
        shapes = [tuple(side.shape) for side in (before, after)]
        return difference(name, "value", f"leaves it {shapes[0]}", f"of shape {shapes[1]}")
    found = mismatches(name, before, after, before != after.to(before.dtype))
    return replace(found, what="value", eager=f"leaves it {found.eager}")


def unlike(name: str, ours: torch.Tensor, theirs: torch.Tensor) -> list[Difference]:
    """Shapes and dtypes must be the same."""
    pairs = {
        "shape": (tuple(ours.shape), tuple(theirs.shape)),
        "dtype": tuple(str(side.dtype).removeprefix("torch.") for side in (ours, theirs)),
    }
    return [difference(name, what, *pair) for what, pair in pairs.items() if pair[0] != pair[1]]


def equal_objects(ours: Any, theirs: Any) -> bool:
    """Plain values must be equal; of other objects only the type can be compared."""
    if type(ours) is not type(theirs):
        return False
    return not isinstance(ours, PLAIN) or bool(ours == theirs)


def brief(value: Any) -> str:
    """A value as a message names it."""
    return "a tensor" if isinstance(value, torch.Tensor) else repr(value)[:80]


def is_same(ours: Any, theirs: Any) -> bool:
    """Bit for bit, NaN equal to NaN."""
    if not (isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor)):
        return equal_objects(ours, theirs)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    return torch.equal(ours, theirs) or bool(
        ((ours == theirs) | (ours.isnan() & theirs.isnan())).all()
    )


def mismatches(
    name: str, ours: torch.Tensor, theirs: torch.Tensor, unequal: torch.Tensor
) -> Difference:
    """How many elements differ, and the first of them."""
    first = int(unequal.reshape(-1).int().argmax())
    index = (
        [int(i) for i in torch.unravel_index(torch.tensor(first), ours.shape)] if ours.dim() else []
    )
    count = f"{int(unequal.sum())} of {ours.numel()} elements differ"
    values = [side.detach().reshape(-1)[first].item() for side in (ours, theirs)]
    return difference(name, "elements", f"{values[0]} at {index}", f"{values[1]} there; {count}")


def nonfinite(name: str, ours: torch.Tensor, theirs: torch.Tensor) -> list[Difference]:
    """NaN, +inf and -inf must stand at the same places."""
    if ours.is_complex():
        ours, theirs = torch.view_as_real(ours), torch.view_as_real(theirs.to(ours))
    if bool(torch.isfinite(ours).all() & torch.isfinite(theirs).all().to(ours.device)):
        return []
    patterns = [
        torch.where(side.isnan(), 2, torch.where(side.isinf(), side.sign(), 0.0))
        for side in (ours.double(), theirs.double())
    ]
    unequal = patterns[0] != patterns[1]
    if not bool(unequal.any()):
        return []
    counts = [int((~torch.isfinite(side)).sum()) for side in (ours, theirs)]
    first = tuple(int(i) for i in unequal.nonzero()[0])
    values = [f"{side[first].item() + 0.0:.6g} at {list(first)}" for side in (ours, theirs)]
    texts = [f"{value}; {n} not finite" for value, n in zip(values, counts, strict=True)]
    return [difference(name, "nonfinite", *texts)]
