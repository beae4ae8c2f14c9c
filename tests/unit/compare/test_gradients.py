"""Tests of compared gradients."""

import pytest
import torch
from torch import nn

from compilegate.observe.compare.results import CallResults, compare_gradients
from compilegate.observe.model.result import Result
from tests.unit.compare.sides import (
    TRAIN,
    Compared,
    complaints,
)


class Faulty(torch.autograd.Function):
    """An identity whose backward multiplies by a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.01, -1.0, 1.001])
def test_wrong_gradients_are_found_behind_right_outputs(factor):
    made = Compared(lambda x: x.sin(), lambda x: Faulty.apply(x, factor).sin(), case=TRAIN)
    assert complaints(made.outputs) == []
    (text,) = complaints(made.gradients)
    assert text.startswith("gradient input[0] (float32)")


def test_a_lost_gradient_is_found():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.shift = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.weight + self.shift

    made = Compared(Two, lambda module, x: x * module.weight + module.shift.detach(), case=TRAIN)
    (found,) = made.gradients.differences
    assert (found.where, found.what) == ("gradient shift", "value")
    assert (found.eager, found.compiled) == ("a tensor", "None")


def retaining(x):
    y = x.sin()
    y.retain_grad()
    return y, y * y


def not_retaining(x):
    y = x.sin()
    return y, y * y


def retaining_a_copy(x):
    y = x.sin()
    kept = y * 1
    kept.retain_grad()
    return kept, y * y


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_gradient_that_an_output_retains_is_compared(backend):
    compiled = torch.compile(retaining, backend=backend)
    made = Compared(retaining, compiled, case=TRAIN)
    assert made.outputs.differences == made.gradients.differences == ()
    assert complaints(made.gradients) == []
    assert "gradient output[0]" in {error.name for error in made.gradients.errors}


def test_a_gradient_that_an_output_does_not_retain_or_that_is_wrong_is_found():
    (found,) = Compared(retaining, not_retaining, case=TRAIN).gradients.differences
    assert (found.where, found.eager, found.compiled) == (
        "gradient output[0]",
        "a tensor",
        "None",
    )
    (text,) = complaints(Compared(retaining, retaining_a_copy, case=TRAIN).gradients)
    assert text.startswith("gradient output[0] (float32)")


def test_a_gradient_of_another_shape_is_found():
    ours, theirs = Result(gradients={"w": torch.ones(3)}), Result(gradients={"w": torch.ones(1, 3)})
    (found,) = compare_gradients(CallResults(ours, theirs)).differences
    assert (found.where, found.what) == ("gradient w", "shape")
