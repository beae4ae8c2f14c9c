"""The loss of a model's output: its own, or one against random targets."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from compilegate.observe import nested
from compilegate.observe.practices.unavailable import StepUnavailableError

#: The loss that a model computes from labels among its arguments, as transformers names it.
OWN_LOSS = "output.loss"


def loss_of(output: Any, seed: int) -> torch.Tensor:
    """Return the loss of an output: a scalar in single precision, or in that of a reference.

    It is the model's own loss if the output has one. The loss of logits (an output of that name, or
    a single matrix) is cross entropy against random classes. That of other outputs is their mean
    square distance from random numbers.

    Args:
        output: What the model returned.
        seed: The seed of the targets, which are the same in each precision and on each device.

    Raises:
        StepUnavailableError: No part of the output can be differentiated.
    """
    found = nested.output_tensors(output)
    parts = {name: _at_least_single(part) for name, part in found.items() if part.requires_grad}
    if not parts:
        raise StepUnavailableError("no output can be differentiated")
    if OWN_LOSS in parts:
        return parts[OWN_LOSS].sum()
    generator = torch.Generator().manual_seed(seed)
    losses = [
        _cross_entropy(part, generator)
        if name.endswith(".logits") or (len(parts) == 1 and part.dim() == 2)
        else _mean_square(part, generator)
        for name, part in parts.items()
    ]
    return torch.stack(losses).sum()


def _at_least_single(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in single precision, if it is in half."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _cross_entropy(logits: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    rows = logits.flatten(0, -2)
    classes = torch.randint(rows.shape[1], (rows.shape[0],), generator=generator)
    return functional.cross_entropy(rows, classes.to(logits.device))


def _mean_square(output: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    real = nested.real(output)
    targets = torch.randn(real.shape, generator=generator)
    return functional.mse_loss(real, targets.to(real))
