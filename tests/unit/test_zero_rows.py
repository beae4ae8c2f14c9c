"""The gradient of a row of zeros is judged next to denormals, in which rounding decides."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_gradients
from tests.unit.observed import observation


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x):
        return self.linear(self.norms(x))

    def norms(self, x):
        return x.norm(dim=-1)


class WithoutZeros(Norms):
    """The gradient of a row of zeros is NaN in compiled code, and zero in eager."""

    def norms(self, x):
        return x.square().sum(-1).sqrt() if is_compiling() else x.norm(dim=-1)


class Deviations(Norms):
    """The deviation of a row of denormals is zero in single precision, and so is its gradient."""

    def norms(self, x):
        return self.deviation(x) if is_compiling() else x.std(-1)

    def deviation(self, x):
        found, variance = x.std(-1), x.var(-1)
        return torch.where(variance == 0, 0.0 * found, found)


class WrongDeviations(Deviations):
    """The gradients of the deviations next to it are wrong, too."""

    def deviation(self, x):
        found, variance = super().deviation(x), x.detach().var(-1)
        return torch.where((variance == 0).any() & (variance > 0), 1.01 * found, found)


class Magnitudes(Norms):
    """The gradient of a magnitude of a denormal is NaN where its kernel fills no vector."""

    def norms(self, x):
        z = torch.complex(x, torch.zeros_like(x))
        return self.spaced(z).abs().sum(-1) if is_compiling() else z.abs().sum(-1)

    def spaced(self, z):
        return torch.stack((z, z), -1)[..., 0]


class WrongMagnitudes(Magnitudes):
    """The gradients of the magnitudes next to it are wrong, too."""

    def spaced(self, z):
        found, tiny = super().spaced(z), z.detach().abs() < 1e-30
        return torch.where(tiny.any() & ~tiny, 1.01 * found, found)


@pytest.mark.parametrize(
    ("module", "outcome"),
    [
        (Norms, "passed"),
        (WithoutZeros, "failed"),
        (Deviations, "passed"),
        (WrongDeviations, "failed"),
        (Magnitudes, "passed"),
        (WrongMagnitudes, "failed"),
    ],
)
@pytest.mark.parametrize("batch", [(8, 5), (16, 5)])
def test_a_row_of_zeros_whose_gradient_is_nan_fails(module, outcome, batch):
    wants = ("capture", "vary", "reuse")
    inputs = {"inputs": lambda batch: (torch.randn(batch, 6, 7),)}
    seen = observation(module, "train", "eager", wants, batch=batch, **inputs)
    found = judge(seen, Budget(), "gradients", test_gradients.rule, ("capture", "vary")).verdict
    assert found.outcome == outcome, (found.summary, found.details)
    assert outcome == "passed" or "a row of zeros and one of denormals" in found.summary
