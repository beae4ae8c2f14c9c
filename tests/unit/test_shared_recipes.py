"""Recipes that return what a zoo file makes once: inputs are copied, modules are refused."""

import copy

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from tests.unit.observed import Linear, observation, verdict


def of_shared(inputs, action=lambda x, y: y):
    return verdict(lambda: Linear(action), inputs=inputs)


@pytest.mark.parametrize("writes", [False, True])
def test_inputs_that_a_zoo_file_makes_once_are_every_sides_own(writes):
    def action(x, y):
        return y + (x.add_(1.0) if writes else x)

    given = torch.randn(6, 4)
    assert of_shared((given,), action).outcome == "passed"
    shared = torch.randn(12, 4)
    assert of_shared((shared[:6],), action).outcome == "passed"


def test_wrong_code_for_such_inputs_fails():
    def action(x, y):
        return y * 1.01 if is_compiling() else y

    assert of_shared((torch.randn(6, 4),), action).outcome == "failed"


def test_a_module_that_a_zoo_file_makes_once_is_refused_with_the_way_out():
    once = Linear()
    seen = observation(lambda: once)
    assert seen.failure is not None
    assert seen.failure.stage == "build"
    assert "the recipe of m returns the same module again" in seen.failure.message
    assert "copy.deepcopy(MODULE)" in seen.failure.message


def test_a_module_with_a_part_that_others_have_is_refused():
    encoder = nn.Linear(4, 4)
    seen = observation(lambda: nn.Sequential(encoder, nn.Linear(4, 4)))
    assert seen.failure is not None
    assert "or a part of it" in seen.failure.message


def test_a_copy_of_such_a_module_passes():
    once = Linear()
    assert verdict(lambda: copy.deepcopy(once)).outcome == "passed"
