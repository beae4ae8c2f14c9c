"""Exact differences between two values: in type, shape, elements, and non-finite elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from compilegate.observe import nested
from compilegate.records.call import Difference

#: The kind of a NaN: see :func:`kinds_of`.
_NAN = 2


def difference(where: str, what: str, eager: object, compiled: object) -> Difference:
    """Return the difference between two properties, as text."""
    return Difference(where=where, what=what, eager=str(eager), compiled=str(compiled))


def kinds_of(values: torch.Tensor) -> torch.Tensor:
    """Return 2 for each NaN, 1 or -1 for each infinity, and 0 for each number, of real parts."""
    values = nested.real(values)
    if not values.is_floating_point():
        return torch.zeros_like(values, dtype=torch.int8)
    signs = values.sign().where(values.isinf(), 0.0)
    return signs.where(~values.isnan(), _NAN).to(torch.int8)


def touched(name: str, before: Any, after: Any) -> Difference:
    """Return the difference for a value that only compiled code changes."""
    if not (isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor)):
        return difference(name, "value", f"leaves it {brief(before)}", brief(after))
    if before.shape != after.shape:
        shapes = [tuple(side.shape) for side in (before, after)]
        return difference(name, "value", f"leaves it {shapes[0]}", f"of shape {shapes[1]}")
    if before.dtype != after.dtype:
        (cast,) = unlike(name, before, after)
        return replace(cast, eager=f"leaves it {cast.eager}", compiled=f"makes it {cast.compiled}")
    found = mismatches(name, before, after, before != after)
    return replace(found, what="value", eager=f"leaves it {found.eager}")


def unlike(name: str, ours: torch.Tensor, theirs: torch.Tensor) -> list[Difference]:
    """Return the differences in shape and dtype."""
    pairs = {
        "shape": (tuple(ours.shape), tuple(theirs.shape)),
        "dtype": tuple(str(side.dtype).removeprefix("torch.") for side in (ours, theirs)),
    }
    return [difference(name, what, *pair) for what, pair in pairs.items() if pair[0] != pair[1]]


def brief(value: Any) -> str:
    """Return a short text for a value in a message."""
    return "a tensor" if isinstance(value, torch.Tensor) else repr(value)[:80]


def mismatches(
    name: str, ours: torch.Tensor, theirs: torch.Tensor, unequal: torch.Tensor
) -> Difference:
    """Return the difference for unequal elements: their number and the first of them."""
    first = int(unequal.reshape(-1).int().argmax())
    index = (
        [int(i) for i in torch.unravel_index(torch.tensor(first), ours.shape)] if ours.dim() else []
    )
    count = f"{int(unequal.sum())} of {ours.numel()} elements differ"
    values = [side.detach().reshape(-1)[first].item() for side in (ours, theirs)]
    return difference(name, "elements", f"{values[0]} at {index}", f"{values[1]} there; {count}")


def nonfinite(
    name: str, ours: torch.Tensor, theirs: torch.Tensor, truths: Sequence[torch.Tensor] = ()
) -> list[Difference]:
    """Return the difference in the places of NaN, +inf and -inf.

    Where eager differs from the reference, and compiled code does not, eager is the one that errs.
    Where eager errs so in some elements, as ``log(1 - tanh(x) ** 2)`` does, rounding decides which:
    compiled code may be infinite, or not, in half as many others. A number that is too large for
    the dtype is no such error.

    Args:
        name: The name of the tensor.
        ours: The tensor of eager.
        theirs: The tensor of compiled code.
        truths: The tensors of the references. Only the first counts, which is not rounded: a number
            that is too large for the dtype of the others is finite there.
    """
    if ours.is_complex():
        ours, theirs = torch.view_as_real(ours), torch.view_as_real(theirs.to(ours))
        truths = [torch.view_as_real(truth) for truth in truths]
    if bool(torch.isfinite(ours).all() & torch.isfinite(theirs).all().to(ours.device)):
        return []
    eager, compiled = kinds_of(ours), kinds_of(theirs.to(ours.device))
    unequal = eager != compiled
    for truth in truths[:1]:
        right = truth.to(ours.device)
        unequal &= compiled != kinds_of(right)
        infinite = unequal & (eager != _NAN) & (compiled != _NAN)
        if int(infinite.sum()) <= int((eager != kinds_of(right.to(ours.dtype))).sum()) // 2:
            unequal &= ~infinite
    if not bool(unequal.any()):
        return []
    counts = [int((~torch.isfinite(side)).sum()) for side in (ours, theirs)]
    first = tuple(int(i) for i in unequal.nonzero()[0])
    values = [f"{side[first].item() + 0.0:.6g} at {list(first)}" for side in (ours, theirs)]
    texts = [f"{value}; {n} not finite" for value, n in zip(values, counts, strict=True)]
    return [difference(name, "nonfinite", *texts)]
