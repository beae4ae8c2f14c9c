"""Elements that eager itself decides the same way in every precision and at every size.

Next to NaN, infinities and numbers near the largest, the order of a sum may decide whether it
overflows. Such an element says nothing about compiled code.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from compilegate.observe import nested
from compilegate.observe.compare.exact import kinds_of
from compilegate.observe.model.result import Result
from compilegate.records.call import SIGN_OF_ZERO, Decision

#: Where eager is off by more than this share of the truth, or of its root mean square, overflow
#: decides.
_FAR = 0.25
#: Where overflow decides more than this share of a row, the others in it are near the truth by
#: chance.
_BY_CHANCE = 0.1


class Rival(NamedTuple):
    """Another eager result, which shows what is not stable.

    Attributes:
        result: The result.
        is_as_right: Whether it is one of the same call, so that whatever differs is not stable.
            Otherwise, an element that is finite in one of the two alone is not.
    """

    result: Result
    is_as_right: bool = False


def settled(
    eager: Result, compiled: Result, truths: Sequence[Result], rivals: Sequence[Rival] = ()
) -> tuple[Result, float]:
    """Return compiled code's result, in which the elements that are not stable are eager's.

    Args:
        eager: The result of eager.
        compiled: The result of compiled code.
        truths: The references. A stable element is near that of one of them.
        rivals: Other eager results, of this call or of similar ones.

    Returns:
        The result, and the share of the floating elements of the output that are not stable.
    """
    found = replace(compiled)
    unstable = total = 0
    for part in ("output", "gradients", "state"):
        ours: Mapping[str, Any] = getattr(eager, part)
        theirs = dict(getattr(compiled, part))
        for name, tensor in ours.items():
            other = theirs.get(name)
            if not isinstance(tensor, Tensor) or not isinstance(other, Tensor):
                continue
            has_rows = part == "output" or name.startswith("input")
            places = _unstable(name, part, tensor, truths, rivals)
            places = _widened(places, has_rows=has_rows)
            if part == "output":
                unstable, total = unstable + int(places.sum()), total + places.numel()
            if other.shape == tensor.shape:
                theirs[name] = torch.where(places, tensor.to(other), other)
        setattr(found, part, theirs)
    return found, unstable / max(total, 1)


def is_finite(made: Result) -> bool:
    """Whether the output and the gradients of a call have no NaN and no infinity."""
    held = (*made.output.values(), *made.gradients.values())
    tensors = (one for one in held if isinstance(one, Tensor) and one.layout is torch.strided)
    return all(bool(torch.isfinite(one).all()) for one in tensors if _has_infinities(one))


def overflow_apart(eager: Result, compiled: Result) -> bool:
    """Whether one side returns an infinity or NaN where the other returns a finite number."""
    for part in ("output", "gradients", "state"):
        for name, ours in getattr(eager, part).items():
            if not isinstance(ours, Tensor):
                continue
            theirs = _like(ours, getattr(compiled, part).get(name))
            if theirs is not None and not torch.equal(kinds_of(ours), kinds_of(theirs)):
                return True
    return False


def zeros_unlike(
    eager: Result, compiled: Result, truths: Sequence[Result], asleep: Container[str]
) -> Iterator[Decision]:
    """Yield the outputs in which compiled code returns a zero of the other sign than eager.

    A zero counts if it has the same sign in eager and in all references: ``1 / x`` depends on it.
    It is a tie: PyTorch promises no sign, and Inductor's ``clamp`` on CPU returns another one.

    Args:
        eager: The result of eager.
        compiled: That of compiled code.
        truths: Those of the reference and of its alternative.
        asleep: The names of outputs that are zero whatever the numbers. Rounding decides their
            signs.
    """
    for name, ours in eager.output.items():
        if name in asleep:
            continue
        theirs = _like(ours, compiled.output.get(name)) if isinstance(ours, Tensor) else None
        if theirs is None or not (ours.is_floating_point() and theirs.is_floating_point()):
            continue
        known = [_like(ours, truth.output.get(name)) for truth in truths]
        zero = (ours == 0) & (theirs == 0) & (ours.signbit() != theirs.signbit())
        for truth in known:
            zero &= (
                (truth == 0) & (truth.signbit() == ours.signbit()) if truth is not None else False
            )
        if places := zero.nonzero().tolist():
            first, count = tuple(places[0]), len(places)
            yield Decision(
                where=f"{name}, {SIGN_OF_ZERO}",
                eager=f"{ours[first].item():g} at {places[0]}",
                compiled=f"{theirs[first].item():g}",
                elements=count,
                answered=count,
            )


def _unstable(
    name: str, part: str, ours: Tensor, truths: Sequence[Result], rivals: Sequence[Rival]
) -> Tensor:
    """Return where a tensor of eager is near no truth, or where a rival shows another.

    Nor is it stable where only one of two truths is finite: the model casts to half precision, and
    overflows there. A complex number is not stable if one of its two parts is not.
    """
    parts = nested.real(ours)
    places = torch.zeros_like(parts, dtype=torch.bool)
    likes = [_like(ours, getattr(truth, part).get(name)) for truth in truths]
    known = [nested.real(truth) for truth in likes if truth is not None]
    if known:
        places |= ~torch.stack([_is_near(parts, truth) for truth in known]).any(0)
        first, *others = (kinds_of(truth.to(parts.dtype)) for truth in known)
        for kinds in others:
            places |= kinds != first
    for rival in rivals:
        other = _like(ours, getattr(rival.result, part).get(name))
        if other is not None:
            another = nested.real(other)
            places |= kinds_of(parts) != kinds_of(another)
            if rival.is_as_right:
                places |= (parts != another) & ~(parts.isnan() & another.isnan())
    return places.any(-1) if ours.is_complex() else places


def _widened(places: Tensor, *, has_rows: bool) -> Tensor:
    """Add the whole row of what is not stable, unless that is a small part of the row.

    Args:
        places: What is not stable.
        has_rows: Whether a row is that of one item of the batch, as in outputs and in gradients of
            inputs. An element of another gradient, or of a buffer, sums over all items: there, the
            whole tensor is a row.
    """
    if places.dim() == 0 or not places.numel():
        return places
    rows = places.flatten(1) if places.dim() > 1 else places[:, None]
    by_chance = rows.double().mean(1) > _BY_CHANCE
    if not has_rows and places.double().mean() > _BY_CHANCE:
        by_chance = torch.ones_like(by_chance)
    return (rows | by_chance[:, None]).view(places.shape)


def _like(ours: Tensor, other: Any) -> Tensor | None:
    if not isinstance(other, Tensor) or other.is_complex() != ours.is_complex():
        return None
    return other if other.shape == ours.shape else None


def _is_near(ours: Tensor, truth: Tensor) -> Tensor:
    if not ours.is_floating_point():
        return ours == truth
    rounded, wide = truth.to(ours.dtype), truth.double()
    finite = wide.isfinite()
    scale = wide.where(finite, 0.0).square().sum().div(finite.sum().clamp(min=1)).sqrt()
    far = (ours.double() - wide).abs() > _FAR * torch.maximum(wide.abs(), scale)
    return (kinds_of(ours) == kinds_of(rounded)) & ~(far & finite)


def _has_infinities(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
