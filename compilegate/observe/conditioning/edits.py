"""Changes to the parameters and buffers of a subject, which the treatment collects."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from compilegate.observe.model.subject import Subject

#: The size of the noise for constant tensors, relative to their scale.
ADDED_NOISE = 0.1


class Edits:
    """Changes to the parameters and buffers of a subject.

    Attributes:
        subject: The subject.
        state: The new values, by name.
        fresh: The ids of running statistics that still have their initial values.
        biases: The value of each constant bias and the unit noise for it, by the id of the bias.
    """

    def __init__(self, subject: Subject) -> None:
        tensors = {**subject.parameters(), **subject.buffers()}
        self.subject = subject
        self.state: dict[str, Tensor] = {}
        self.biases: dict[int, tuple[float, Tensor]] = {}
        self.fresh = {
            id(tensor)
            for name, tensor in tensors.items()
            if name.endswith(("running_mean", "running_var")) and constant_of(tensor) is not None
        }
        self._names = {id(tensor): name for name, tensor in tensors.items()}

    def write(self, tensor: Tensor, value: Tensor) -> None:
        """Write a value to a tensor of the module in place."""
        with torch.no_grad():
            tensor.copy_(value)
        self.state[self._names[id(tensor)]] = tensor.detach().clone()

    def write_bias(self, bias: Tensor, scale: float) -> None:
        """Add to a constant bias its noise, for activations of a given scale."""
        constant, noise = self.biases[id(bias)]
        self.write(bias, constant + ADDED_NOISE * scale * noise)


def constant_of(tensor: Tensor) -> float | None:
    """Return the value of all elements of a tensor; None if they differ."""
    flat = tensor.detach().flatten()
    if flat.numel() > 1 and flat[0] != flat[1]:  # true for nearly all tensors, and quick
        return None
    return float(flat[0]) if bool((flat == flat[0]).all()) else None


def size_of(tensor: Tensor) -> float:
    """Return the root mean square of a tensor."""
    return float(tensor.detach().norm()) / math.sqrt(tensor.numel())
