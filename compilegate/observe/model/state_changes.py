"""Change the state that neither calls nor training change: integers, masks, zeros and others.

Compiled code reads it in each call, or has kept its first values. Where these are floating numbers
other than zero, scaling shows that (:mod:`.weight_changes`). What scaling leaves is changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from compilegate.observe.floating import has_arithmetic
from compilegate.observe.model.weight_changes import MASK_VALUE, change_weights

#: Changes tensors in place. Returns whether one of them has changed.
StateChange = Callable[[Iterable[Tensor]], bool]

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
#: What replaces zeros, before each of them is scaled.
_SMALL = 0.125


def swap_integers(tensors: Iterable[Tensor]) -> bool:
    """Swap two integers that differ, in each row. Return whether a tensor has such a row.

    A table of indices has the same indices then, so that each of them stays in range. A single
    number stays: it is a counter or a size.
    """
    return _any(_swap(one) for one in _writable(tensors) if one.dtype in _INTEGERS)


def change_others(tensors: Iterable[Tensor], *, scales: bool, device: str, seed: int) -> bool:
    """Change masks, zeros, and numbers that nothing else scales. Return whether one has changed.

    Each row of a mask swaps two values, so that it hides as much as before. If all its elements are
    alike, the first of each row becomes the opposite. Values such as -1e9 make a mask, too.

    Args:
        tensors: Parameters and buffers.
        scales: Whether to scale floating numbers. Nothing else scales complex ones.
        device: ``cpu`` or ``cuda``.
        seed: The seed of the factors.
    """

    def change(tensor: Tensor) -> bool:
        if tensor.dtype == torch.bool:
            return _swap(tensor) or _negate_first(tensor)
        if tensor.is_complex():
            return not tensor.is_conj() and scale(torch.view_as_real(tensor))
        if not has_arithmetic(tensor):
            return False
        if not tensor.any():
            tensor.fill_(_SMALL)
            return scale(tensor)
        if float(tensor.abs().max()) >= MASK_VALUE:
            return _swap(tensor)
        return scales and scale(tensor)

    def scale(tensor: Tensor) -> bool:
        change_weights([tensor], device, seed)
        return True

    return _any(change(one) for one in _writable(tensors))


def _any(changes: Iterable[bool]) -> bool:
    """Make all changes. Return whether one of them changed something."""
    with torch.no_grad():
        return any([*changes])


def _writable(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield tensors whose elements have memory of their own, those of one memory once."""
    seen = set()
    for tensor in tensors:
        plain = type(tensor) in (nn.Parameter, Tensor) and tensor.layout is torch.strided
        if not plain or not tensor.numel() or tensor.is_inference():
            continue
        places = zip(tensor.stride(), tensor.shape, strict=True)
        is_expanded = any(stride == 0 and size > 1 for stride, size in places)
        if not is_expanded and tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            yield tensor


def _swap(tensor: Tensor) -> bool:
    """Swap the first element of each row with the first that differs from it, if there is one.

    The rows lie along the last dimension along which elements differ.
    """
    for dim in reversed(range(tensor.dim())):
        first = tensor.narrow(dim, 0, 1).clone()
        at = (tensor != first).byte().argmax(dim, keepdim=True)
        if at.any():
            other = tensor.gather(dim, at)
            tensor.scatter_(dim, at, first)
            tensor.narrow(dim, 0, 1).copy_(other)
            return True
    return False


def _negate_first(tensor: Tensor) -> bool:
    """Negate the first element of each row of booleans, if rows have several."""
    long = [dim for dim in range(tensor.dim()) if tensor.shape[dim] > 1]
    if not long:
        return False
    tensor.narrow(long[-1], 0, 1).logical_not_()
    return True
