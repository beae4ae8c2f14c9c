"""What shows that a call wrote to a tensor, or replaced it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from compilegate.observe import nested

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def fingerprints(
    leaves: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]
) -> dict[str, tuple[int, ...]]:
    """Return a fingerprint of each tensor, which changes if the tensor is written to or replaced.

    It consists of the identity and the version, which autograd increases at each write. For
    parameters it also has the sum of their bits: a write through ``.data`` increases no version.

    Args:
        leaves: The state that a call may change, by name.
        parameters: The parameters by name.
    """
    sums = _sums_of_bits(parameters)
    return {
        name: (id(leaf), leaf._version, sums.get(name, 0))
        for name, leaf in {**leaves, **parameters}.items()
        if isinstance(leaf, torch.Tensor) and not leaf.is_inference()
    }


def _sums_of_bits(parameters: Mapping[str, torch.Tensor]) -> dict[str, int]:
    dense = {
        name: parameter.detach()
        for name, parameter in parameters.items()
        if type(parameter) is torch.nn.Parameter and parameter.layout is torch.strided
    }
    if not dense:
        return {}
    sums = torch.stack([_bits(nested.real(tensor)).sum() for tensor in dense.values()])
    return dict(zip(dense, sums.tolist(), strict=True))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bits of a tensor as integers. A CPU adds those of 64 bits 35 times as quickly."""
    bits = tensor.view(_BITS[tensor.element_size()])
    together = 8 // bits.element_size()
    if not bits.is_contiguous() or bits.numel() % together or bits.storage_offset() % together:
        return bits
    return bits.view(-1).view(torch.int64)
