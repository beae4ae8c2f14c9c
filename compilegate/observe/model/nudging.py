"""Nudges: move floating numbers by a few whole units in the last place, equal numbers alike.

A nudge depends on a number, not on its position. Equal numbers stay equal, so that exact ties stay
ties: eager decides them by its own rule in every nudged run, too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from compilegate.observe.floating import has_arithmetic

#: Integers of the size of a number, in which its bits can be counted up and down.
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
#: An integer hash: two rounds of a shift and a product (https://github.com/skeeto/hash-prospector).
_ROUNDS = ((16, 0x21F0AAAD), (15, 0x735A2D97))
#: The bits of a hash that choose the size of a step.
_SIZE_BITS = 15
#: Numbers that a CPU nudges at once: few enough to stay in its cache.
_AT_ONCE = 1 << 16
#: The numbers of a tensor in fixed point are multiples of one by this.
_OF_ONE = 4
#: The share of the numbers of a tensor in fixed point that are such multiples, at least.
_NEARLY_ALL = 0.9


def nudge(tensors: Sequence[torch.Tensor], amount: float, seed: int) -> float:
    """Nudge floating tensors in place.

    A number moves by whole units in its last place: by up to ``amount``, or by one unit if that is
    more. Numbers of the same magnitude move alike. Zeros, infinities and NaN stay. If no number of
    a tensor is above 1 in magnitude, none becomes so: they may be probabilities or cosines. If any
    of the tensors has units of at most ``amount``, the coarser tensors stay: a rounding error of
    float32 cannot move a number in half precision. Numbers of eight bits always stay.

    Args:
        tensors: The tensors. They may share memory.
        amount: The largest step, as a share of a number.
        seed: The seed of the steps.

    Returns:
        The largest step that a number can have made, as a share of it.
    """
    floating = [tensor.detach() for tensor in tensors if has_arithmetic(tensor)]
    fine = [tensor for tensor in floating if torch.finfo(tensor.dtype).eps <= 2 * amount]
    pending = {}
    for tensor in fine or floating:
        (once,) = without_repeats(tensor)
        if once.numel():
            pending[once.data_ptr(), once.dtype, once.shape, once.stride()] = once
    return max((_nudge(tensor, amount, seed) for tensor in pending.values()), default=0.0)


def without_repeats(tensor: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return a view in which each number of an expanded tensor occurs once.

    Args:
        tensor: The tensor.
        others: Tensors of the same shape. Their views have the same elements.
    """
    views = (tensor, *others)
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim]:
            views = tuple(view.narrow(dim, 0, 1) for view in views)
    return views


def is_fixed_point(tensor: torch.Tensor) -> bool:
    """Whether nearly all numbers of a floating tensor are integers, halves or quarters.

    Some must be larger than one. Zeros, infinities, NaN and numbers too small for full precision do
    not count, nor do numbers so large that all of their size are such multiples.
    """
    if not tensor.is_floating_point() or tensor.layout is not torch.strided:
        return False
    (once,) = without_repeats(tensor.detach())
    finfo, sizes = torch.finfo(once.dtype), once.abs()
    counted = (sizes >= finfo.smallest_normal) & (sizes <= finfo.max)
    exact = torch.zeros_like(counted)
    for steps in (once, once * _OF_ONE):
        exact |= counted & (steps == steps.trunc()) & (steps.abs() < 1 / finfo.eps)
    of_all, some = torch.stack([counted.sum() * _NEARLY_ALL, (exact & (sizes > 1)).sum()]).tolist()
    return bool(some) and int(exact.sum()) >= of_all


def _nudge(tensor: torch.Tensor, amount: float, seed: int) -> float:
    finfo = torch.finfo(tensor.dtype)
    steps = max(round(amount / finfo.eps), 1)
    kind = BITS[tensor.element_size()]
    one, largest = _bits_of_one_and_largest(tensor.dtype)
    bits = tensor.view(kind)
    in_parts = tensor.device.type == "cpu" and bits.is_contiguous()
    for part in bits.view(-1).split(_AT_ONCE) if in_parts else [bits]:
        _step(part, steps, (one, largest - steps), seed)
    return float(steps * finfo.eps)


@functools.cache
def _bits_of_one_and_largest(dtype: torch.dtype) -> tuple[int, int]:
    ends = torch.tensor([1.0, torch.finfo(dtype).max], dtype=dtype)
    one, largest = ends.view(BITS[dtype.itemsize]).tolist()
    return one, largest


def _step(bits: torch.Tensor, steps: int, ends: tuple[int, int], seed: int) -> None:
    """Move numbers, given as bits.

    Args:
        bits: The bits of the numbers.
        steps: The most units that a number moves by.
        ends: The bits of 1, and of the largest number that can move.
        seed: The seed of the steps.
    """
    one, largest = ends
    most = torch.iinfo(bits.dtype).max
    magnitude = bits & most
    lowest, highest = (int(value) for value in torch.aminmax(magnitude))
    mixed = _hash(magnitude, seed)
    moves = (mixed & 1).mul_(-2).add_(1)
    if steps > 1:
        mixed.bitwise_right_shift_(1).bitwise_and_(2**_SIZE_BITS - 1)
        moves.mul_(mixed.mul_(steps).bitwise_right_shift_(_SIZE_BITS).add_(1))
    if one - steps < highest <= one:
        moves.copy_(torch.where((bits & most) > one - steps, -moves.abs(), moves))
    if lowest <= steps or highest > largest:
        magnitude = bits & most
        moves.masked_fill_((magnitude <= steps) | (magnitude > largest), 0)
    bits.add_(moves.to(bits.dtype))


def _hash(magnitude: torch.Tensor, seed: int) -> torch.Tensor:
    """Return an integer of at least 32 bits for each magnitude, as if drawn under the seed.

    The magnitudes are lost: on a CPU, each copy takes as long as an operation.
    """
    if magnitude.element_size() == 8:
        mixed = magnitude.bitwise_xor_(magnitude >> 32).bitwise_and_(2**31 - 1)
    else:
        mixed = magnitude.to(torch.int32)
    mixed.bitwise_xor_(_start(seed))
    shifted = torch.empty_like(mixed)
    for shift, factor in _ROUNDS:
        mixed.bitwise_xor_(torch.bitwise_right_shift(mixed, shift, out=shifted))
        mixed.mul_(factor)
    return mixed.bitwise_xor_(torch.bitwise_right_shift(mixed, _SIZE_BITS, out=shifted))


@functools.cache
def _start(seed: int) -> int:
    return int(torch.randint(2**31, (), generator=torch.Generator().manual_seed(seed)))
