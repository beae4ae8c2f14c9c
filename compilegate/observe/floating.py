"""Which tensors hold numbers that models compute with."""

from __future__ import annotations

import torch


def has_arithmetic(tensor: torch.Tensor) -> bool:
    """Whether a tensor is floating and has operators.

    A number of eight bits or fewer only stores another one: PyTorch has no sums, products or
    comparisons of such numbers. Their resolution is so coarse that no rounding error moves them.
    """
    return tensor.is_floating_point() and tensor.element_size() > 1
