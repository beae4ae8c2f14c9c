"""Copies arguments as they lie in memory, for a submodule that is called by itself."""

from __future__ import annotations

from typing import Any

import torch

from compilegate.observe import nested


def copied(value: Any) -> Any:
    """Return arguments whose tensors are copies."""
    return nested.mapped(value, _copied_in_place)


def _copied_in_place(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor that lies in memory as the tensor does, also if rows overlap."""
    if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided:
        return tensor.detach().clone()
    memory = tensor.detach().untyped_storage().clone()
    layout = tensor.storage_offset(), tensor.shape, tensor.stride()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(memory, *layout)
