"""A model in double precision is held to the errors of double precision."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.functional import linear

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_forward, test_gradients
from tests.unit.observed import observation


class Double(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 300), nn.Tanh(), nn.Linear(300, 4))
        self.double()


class Lowered(Double):
    """Compiled code computes its last layer in single precision."""

    def forward(self, x):
        hidden = self[1](self[0](x))
        if not is_compiling():
            return self[2](hidden)
        return linear(hidden.float(), self[2].weight.float(), self[2].bias.float()).double()


@pytest.mark.parametrize(("module", "outcome"), [(Double, "passed"), (Lowered, "failed")])
@pytest.mark.parametrize("phase", ["infer", "train"])
def test_a_layer_in_single_precision_fails_and_its_twin_passes(module, outcome, phase):
    def inputs(batch):
        return (torch.randn(batch, 4, dtype=torch.float64),)

    backend = "inductor" if module is Double else "eager"
    seen = observation(module, phase, backend, inputs=inputs)
    for suite in (test_forward, *([test_gradients] if phase == "train" else [])):
        aspect = suite.__name__.removeprefix("suites.test_")
        found = judge(seen, Budget(), aspect, suite.rule, ("capture", "vary")).verdict
        assert found.outcome == outcome, (found.summary, found.details)
