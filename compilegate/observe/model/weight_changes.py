"""Change the weights of a module between calls of *infer*, the same way on every side."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from compilegate.observe.floating import has_arithmetic
from compilegate.observe.model.seeding import factors

#: A larger number may be a mask value such as -1e9, not a value that the model computes with.
MASK_VALUE = 1e4
#: Weights change by about this share: far more than rounding.
_CHANGE = 0.02
#: Factors are multiples of one over this: the same number in single and in double precision.
_EXACTLY = 4096


def change_weights(tensors: Iterable[torch.Tensor], device: str, seed: int) -> None:
    """Scale parameters and buffers in place: compiled code that baked in their values then errs.

    Each element has its own factor, because a norm would cancel a common one. Tensors with mask
    values keep their values.

    Args:
        tensors: The parameters and buffers of a module.
        device: ``cpu`` or ``cuda``.
        seed: The seed of the factors.
    """
    generator = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for tensor in tensors:
            kind = type(tensor)
            dense = has_arithmetic(tensor) and tensor.layout is torch.strided
            plain = dense and kind in (nn.Parameter, torch.Tensor)
            if plain and tensor.numel() and float(tensor.abs().max()) < MASK_VALUE:
                single = torch.empty_like(tensor, dtype=torch.float32)  # on all sides
                drawn = (1 + _CHANGE) * factors(single, _CHANGE / 2, generator)
                tensor.mul_((drawn * _EXACTLY).round() / _EXACTLY)
