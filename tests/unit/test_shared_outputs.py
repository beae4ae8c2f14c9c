"""Outputs of two calls share memory in compiled code only where they do in eager."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_forward
from tests.unit.observed import observation

KEPT = {}


@torch.compiler.assume_constant_result
def the_same_numbers():
    return KEPT.setdefault("numbers", torch.arange(8))


class Fresh(nn.Module):
    def forward(self, x):
        return x * 2, self.numbers()

    def numbers(self):
        return torch.arange(8)


class Folded(Fresh):
    """Compiled code returns one tensor in all calls: who writes to it changes later results."""

    def numbers(self):
        return the_same_numbers() if is_compiling() else torch.arange(8)


class Held(Fresh):
    """Eager returns one tensor in all calls, too."""

    def __init__(self):
        super().__init__()
        self.register_buffer("held", torch.arange(8))

    def numbers(self):
        return self.held


@pytest.mark.parametrize(("module", "outcome"), [(Fresh, 0), (Held, 0), (Folded, 1)])
def test_an_output_in_the_memory_of_the_first_one_fails(module, outcome):
    found = judge(observation(module), Budget(), "forward", test_forward.rule, ("capture",)).verdict
    assert found.outcome == ("failed" if outcome else "passed"), (found.summary, found.details)
    assert not outcome or "compiled first output[1] = output[1]" in found.summary
