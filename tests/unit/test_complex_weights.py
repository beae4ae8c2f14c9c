"""Complex parameters and buffers keep their imaginary parts in the reference."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_forward, test_gradients
from tests.unit.observed import observation


class Rotated(nn.Module):
    """Turns pairs of numbers, as rotary embeddings do; compiled code is wrong by ``error``."""

    error = 0.0

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("turns", torch.polar(torch.ones(2), torch.tensor([0.5, 2.0])))
        self.scale = nn.Parameter(torch.polar(torch.ones(2), torch.tensor([1.0, -1.0])))

    def forward(self, x):
        pairs = torch.view_as_complex(self.linear(x).unflatten(-1, (2, 2)))
        turned = torch.view_as_real(pairs * self.turns * self.scale).flatten(-2)
        return turned * (1 + self.error * is_compiling())


class Wrong(Rotated):
    error = 0.001


@pytest.mark.parametrize(("module", "outcome"), [(Rotated, "passed"), (Wrong, "failed")])
@pytest.mark.parametrize("suite", [test_forward, test_gradients])
def test_an_error_next_to_complex_weights_fails_and_its_twin_passes(module, outcome, suite):
    aspect = suite.__name__.removeprefix("suites.test_")
    seen = observation(module, "train", signal=False)
    found = judge(seen, Budget(), aspect, suite.rule, ("capture", "vary")).verdict
    assert found.outcome == outcome, (found.summary, found.details)
