"""Visibility: how well a model's outputs and gradients show what it computes."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass

from torch import Tensor, nn

from compilegate.observe import nested
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.subject import Subject

#: Standard deviations of the output of a model or of a layer that need no treatment.
BAND = (0.125, 8.0)

#: A gradient norm is remote if it differs from the median by this many orders of magnitude.
ORDERS = 6.0

#: The share of parameters that may have a remote gradient.
REMOTE_SHARE = 0.05


@dataclass(frozen=True)
class Visibility:
    """How well a model shows its computation.

    Attributes:
        spreads: The standard deviations of differentiable outputs, by phase and path.
        gradients: The norm of the gradient of each parameter in training mode, for a cotangent of
            unit norm on every output; zero if no gradient arrived.
    """

    spreads: dict[str, float]
    gradients: dict[str, float]

    @property
    def off_scale(self) -> list[str]:
        """The outputs whose standard deviation is outside the band."""
        return [name for name, spread in self.spreads.items() if not in_band(spread)]

    @property
    def silent(self) -> list[str]:
        """The parameters whose gradient is zero."""
        return [name for name, norm in self.gradients.items() if norm == 0]

    @property
    def remote(self) -> list[str]:
        """The parameters whose gradient is zero or many orders of magnitude from the median."""
        norms = sorted(self.gradients.values())
        median = norms[len(norms) // 2] if norms else 0.0
        return [name for name, norm in self.gradients.items() if not _is_near(norm, median)]

    @property
    def finite(self) -> bool:
        """Whether all outputs and gradients are finite."""
        return all(map(math.isfinite, (*self.spreads.values(), *self.gradients.values())))

    @property
    def faults(self) -> tuple[int, int, int, int]:
        """The number of faults, the worst first: not finite, outputs, silent and remote parameters.

        Biases do not count. Before a norm or a softmax, their gradient is always zero. In a branch
        that does not reach the output, the gradient of the weight is zero, too.
        """
        silent, remote = (
            [name for name in names if not is_bias(name)] for names in (self.silent, self.remote)
        )
        many = len(remote) > REMOTE_SHARE * len(self.gradients)
        return (not self.finite, len(self.off_scale), len(silent), len(remote) if many else 0)


def measure_visibility(
    subject: Subject,
    planned: PlannedCall,
    settling: contextlib.AbstractContextManager[None] | None = None,
) -> Visibility:
    """Measure the visibility of a subject in evaluation mode, then in training mode with backward.

    Args:
        subject: A subject of phase *train*. It stays in training mode, and its buffers change as in
            any call.
        planned: The plan of the call.
        settling: A context manager, entered for the call in evaluation mode.

    Raises:
        Exception: The model raises.
    """
    module = subject.module
    assert isinstance(module, nn.Module)
    with settling or contextlib.nullcontext():
        module.eval()
        evaluated = subject.forward(subject.prepare(planned))
    module.train()
    call = subject.prepare(planned)
    subject.forget_gradients(call)
    trained = subject.step(call)
    spreads = {
        f"{phase} {path}": spread_of(tensor)
        for phase, output in (("infer", evaluated), ("train", trained))
        for path, tensor in nested.output_tensors(output).items()
        if tensor.requires_grad and tensor.numel() > 1
    }
    gradients = {
        name: 0.0 if parameter.grad is None else _norm(parameter.grad)
        for name, parameter in subject.parameters().items()
        if parameter.requires_grad
    }
    return Visibility(spreads, gradients)


def is_bias(name: str) -> bool:
    """Whether a parameter is a bias, by its name."""
    return "bias" in name.rpartition(".")[2]


def spread_of(tensor: Tensor) -> float:
    """Return the standard deviation over all elements."""
    return float(nested.real(tensor.detach().resolve_conj()).double().std())


def in_band(spread: float) -> bool:
    """Whether a standard deviation needs no treatment."""
    return BAND[0] <= spread <= BAND[1]


def _norm(gradient: Tensor) -> float:
    return float(nested.real(gradient.resolve_conj()).double().norm())


def _is_near(norm: float, median: float) -> bool:
    return norm > 0 and median > 0 and abs(math.log10(norm / median)) < ORDERS
