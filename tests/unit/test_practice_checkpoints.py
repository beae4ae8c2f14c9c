"""Checkpoints: what a compiled module's state_dict, copy and assigned weights must be."""

import copy
from unittest import mock

import pytest
import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule

from compilegate.judging.practices import judge_steps
from tests.unit.observed import Linear, observation


class Frozen(Linear):
    """A linear layer whose bias is not trained."""

    def __init__(self):
        super().__init__()
        self.linear.bias.requires_grad_(False)


def found():
    seen = observation(Frozen, "infer", "aot_eager", ("capture", "checkpoints"))
    return judge_steps(seen, "checkpoints")


def copied_state():
    """A compiled module's ``state_dict`` that holds copies."""
    made = nn.Module.state_dict

    def state_dict(self, *args, **kwargs):
        held = made(self, *args, **kwargs)
        return {name: value.clone() for name, value in held.items()}

    return mock.patch.object(OptimizedModule, "state_dict", state_dict)


def thawed_copy():
    """A ``deepcopy`` that forgets which parameters are frozen."""
    deepcopy = copy.deepcopy

    def thaw(value, *args):
        made = deepcopy(value, *args)
        return made.requires_grad_() if isinstance(made, OptimizedModule) else made

    return mock.patch.object(copy, "deepcopy", thaw)


def lost_assignment():
    """A ``load_state_dict`` that assigns nothing to a module that was compiled in place."""
    load = nn.Module.load_state_dict

    def load_state_dict(self, weights, *args, assign=False):
        is_lost = assign and self._compiled_call_impl is not None
        return None if is_lost else load(self, weights, *args, assign=assign)

    return mock.patch.object(nn.Module, "load_state_dict", load_state_dict)


def test_a_healthy_module_passes():
    finding = found()
    assert finding.outcome == "passed", finding


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (copied_state, "weight linear.weight: memory differs: eager its own, compiled a copy's"),
        (thawed_copy, "requires_grad of every parameter: value differs: eager {'linear.weight'"),
        (lost_assignment, "load_state_dict(assign=True) after module.compile(): output (float32)"),
    ],
)
def test_a_fault_fails(fault, expected):
    with fault():
        finding = found()
    assert finding.outcome == "failed", finding
    assert any(expected in line for line in finding.details), finding


def test_tied_weights_may_be_assigned():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Linear(4, 4), nn.Linear(4, 4)
            self.out.weight = self.into.weight
            self.register_buffer("scale", torch.rand(4))

        def forward(self, x):
            return self.out(self.into(x).sin()) * self.scale

    seen = observation(Tied, "infer", "aot_eager", ("capture", "checkpoints"))
    finding = judge_steps(seen, "checkpoints")
    assert finding.outcome == "passed", finding


def test_a_cache_that_the_first_call_fills_and_transposed_weights_pass():
    class Caching(Linear):
        def __init__(self):
            super().__init__()
            self.linear.weight = nn.Parameter(torch.randn(4, 4).T)
            self.rates = {}

        def forward(self, x):
            if "one" not in self.rates:
                self.rates["one"] = torch.arange(4.0).cos()
            return super().forward(x) * self.rates["one"]

    seen = observation(Caching, "infer", "aot_eager", ("capture", "checkpoints"))
    finding = judge_steps(seen, "checkpoints")
    assert finding.outcome == "passed", finding
