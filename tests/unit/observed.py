"""Observations and verdicts of tiny modules."""

import torch
from torch import nn

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.observe.model_session import ModelSession
from compilegate.records.request import Request
from compilegate.suites import test_forward
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model


class Linear(nn.Module):
    """A linear layer that gives its output to an action."""

    def __init__(self, action=lambda x, y: y):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.action = action

    def forward(self, x):
        return self.action(x, self.linear(x))


def observation(
    module,
    phase="infer",
    backend="eager",
    wants=("capture", "vary"),
    *,
    precision="f32",
    batch=(8, 5),
    **example,
):
    """Return the observation of a module, which each build makes again."""
    example = {"inputs": lambda batch: (torch.randn(batch, 4),), **example}
    entry = Model("m", "m", {"batch": batch}, build=lambda: Example(module(), **example))
    request = Request(
        case=f"m-cpu-{phase}-{precision}-default-static", wants=wants, backend=backend
    )
    return ModelSession({"m": entry}, lambda stage: None).observe(request)


def verdict(module, phase="infer", backend="eager", suite=test_forward, **example):
    """Return the verdict of a suite on a module."""
    seen = observation(module, phase, backend, **example)
    aspect = suite.__name__.removeprefix("suites.test_")
    return judge(seen, Budget(), aspect, suite.rule, ("capture", "vary")).verdict
