"""A NaN that an output without a loss brings into the gradients comes with its cause."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_gradients
from tests.unit.observed import observation


class Depths(nn.Module):
    """Returns a weighted sum, and a mean depth that is 0 / 0 for a row without weights."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        weights = (self.linear(x) * (x[:, :1] > 0)).square()
        depth = weights.sum(1)
        return weights * x.sin(), self.mean(depth)

    def mean(self, depth):
        return depth / depth


class FiniteDepths(Depths):
    def mean(self, depth):
        return depth / (depth + 1e-3)


class WrongDepths(FiniteDepths):
    """Its gradient is wrong in compiled code, and finite."""

    def mean(self, depth):
        return super().mean(depth * 1.01 if is_compiling() else depth)


@pytest.mark.parametrize(
    ("module", "outcome", "is_explained"),
    [(Depths, "failed", True), (FiniteDepths, "passed", False), (WrongDepths, "failed", False)],
)
def test_a_nan_of_an_output_without_a_loss_is_explained(module, outcome, is_explained):
    wants = ("capture", "vary", "reuse")
    inputs = {"inputs": lambda batch: (torch.randn(batch, 4),)}
    seen = observation(module, "train", "aot_eager", wants, **inputs)
    found = judge(seen, Budget(), "gradients", test_gradients.rule, ("capture", "vary")).verdict
    assert found.outcome == outcome, (found.summary, found.details)
    cause = any("gives outputs without a loss a gradient of zeros" in one for one in found.details)
    assert cause is is_explained, found.details
