"""Gradients that do not arrive: none, where a loss does not depend on an output, or no infinity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from compilegate.observe.compare import exact
from compilegate.observe.model.result import Result
from compilegate.records.call import Checked, Difference
from compilegate.records.rounding import is_blind


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


def without_noise(gradients: Checked) -> Checked:
    """Return the comparison of gradients without those that are mere noise in eager."""
    noise = {one.name for one in gradients.errors if is_blind(one)}
    return replace(
        gradients,
        errors=tuple(one for one in gradients.errors if one.name not in noise),
        decisions=tuple(one for one in gradients.decisions if one.where not in noise),
    )


def lost_infinity(eager: Result, compiled: Result) -> Iterator[Difference]:
    """Yield the difference if a gradient is not finite in eager, and all of compiled code's are.

    Where an infinity arrives, and whether as a NaN, depends on how a product with zero is computed.
    ``GradScaler`` only asks whether there is one.

    Args:
        eager: The result of eager.
        compiled: The result of compiled code.
    """
    arrived = [name for name, one in eager.gradients.items() if not _is_finite(one)]
    if arrived and all(map(_is_finite, compiled.gradients.values())):
        yield exact.difference(
            f"gradient {arrived[0]}", "nonfinite", "has infinities or NaN", "all gradients finite"
        )


def _is_finite(gradient: torch.Tensor | None) -> bool:
    return gradient is None or bool(gradient.isfinite().all())


def _is_zero(gradient: torch.Tensor | None) -> bool:
    return gradient is not None and not bool(gradient.any())
