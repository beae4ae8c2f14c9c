"""A model that compiles a part of itself is compared with PyTorch's operators, not its own code."""

import pytest
import torch
from torch import nn

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_forward, test_gradients
from tests.unit.observed import observation


def healthy(graph, inputs):
    return graph


def too_large(graph, inputs):
    """Return code whose results are 1% too large."""
    return lambda *given: tuple(one * 1.01 for one in graph(*given))


class Inner(nn.Module):
    def __init__(self, backend):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.hot = torch.compile(torch.tanh, backend=backend)

    def forward(self, x):
        return self.hot(self.linear(x))


@pytest.mark.parametrize(("inner", "outcome"), [(healthy, "passed"), (too_large, "failed")])
@pytest.mark.parametrize("phase", ["infer", "train"])
def test_an_error_of_the_inner_compiler_fails_and_its_twin_passes(inner, outcome, phase):
    seen = observation(lambda: Inner(inner), phase, backend=inner)
    assert seen.status == "completed", seen.failure
    for suite in (test_forward, *([test_gradients] if phase == "train" else [])):
        aspect = suite.__name__.removeprefix("suites.test_")
        found = judge(seen, Budget(), aspect, suite.rule, ("capture", "vary")).verdict
        assert found.outcome == outcome, (found.summary, found.details)
