"""Gradients that do not arrive, where a loss depends on a part of the output alone."""

from __future__ import annotations

from dataclasses import replace

import torch

from compilegate.observe.model.result import Result


def without_zeros(eager: Result, compiled: Result) -> Result:
    """Return compiled code's result without gradients of zero that eager does not have.

    What the loss does not depend on has no gradient in eager. AOTAutograd computes the gradients
    for all outputs at once, and gives it a gradient of zero.

    Args:
        eager: The result of eager.
        compiled: The result of compiled code.
    """
    gradients = {
        name: None if eager.gradients.get(name) is None and _is_zero(gradient) else gradient
        for name, gradient in compiled.gradients.items()
    }
    return replace(compiled, gradients=gradients)


def _is_zero(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and not bool(gradient.any())
