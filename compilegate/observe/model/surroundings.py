"""The memory around inputs that are views: other tensors of the user lie there."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from compilegate.observe.model.result import Result

#: Bytes of the memory of one input. A larger memory is left out.
_LARGEST = 64 << 20
#: How the name of the memory around an input begins.
AROUND = "memory around "


class Surroundings:
    """The elements that inputs do not have, but the memory that they lie in.

    Args:
        tensors: The inputs by name.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._kept: dict[str, tuple[Tensor, Tensor, Tensor]] = {}
        for name, tensor in tensors.items():
            if _lies_in_more(tensor):
                memory, around = _memory(tensor), _around(tensor)
                self._kept[f"{AROUND}{name}"] = (memory, around, memory[around])

    def record(self, result: Result) -> None:
        """Record what a call has left as it was, and what it has written to."""
        for name, (memory, around, before) in self._kept.items():
            if memory.untyped_storage().nbytes() and not torch.equal(memory[around], before):
                result.moved[name] = "content"
            else:
                result.stayed |= {name}


def _lies_in_more(tensor: Tensor) -> bool:
    if type(tensor) is not Tensor or tensor.layout is not torch.strided or tensor.is_meta:
        return False
    held = tensor.untyped_storage().nbytes()
    return tensor.numel() * tensor.element_size() != held <= _LARGEST


def _memory(tensor: Tensor) -> Tensor:
    """Return all whole elements of the memory as integers, since NaN differs from itself."""
    size = tensor.element_size()
    memory = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    storage = tensor.untyped_storage()
    memory.set_(storage, 0, (storage.nbytes() // size * size,), (1,))
    return memory.view(-1, size)


def _around(tensor: Tensor) -> Tensor:
    """Return the numbers of the elements that are not the tensor's."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    numbers = torch.arange(count, device=tensor.device)
    own = numbers.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    is_around = torch.ones(count, dtype=torch.bool, device=tensor.device)
    is_around[own.flatten()] = False
    return is_around.nonzero().flatten()
