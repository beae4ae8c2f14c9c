"""Tests of gradient scaling: gradients return unscaled, and overflow is reported."""

from types import SimpleNamespace

import pytest
import torch

from compilegate.observe.model.backward import Backward
from compilegate.observe.model.grad_scaling import SCALE, Scaling
from compilegate.zoo.example import Call


def through(factor, dtype=torch.float32):
    """Return the gradient of ``factor * leaf``, scaled and then unscaled."""
    leaf = torch.ones(4, dtype=dtype, requires_grad=True)
    scaling = Scaling([leaf], "cpu")
    (cotangent,) = scaling.scale([torch.ones(4)])
    (leaf * factor).backward(cotangent.to(dtype))
    scaling.unscale()
    return leaf.grad, scaling


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gradients_come_back_unscaled(dtype):
    gradient, scaling = through(2.0, dtype)
    assert gradient.tolist() == [2.0] * 4
    assert not scaling.found_inf


def test_overflow_is_reported():
    assert through(float("inf"))[1].found_inf
    assert through(3e38 / SCALE * 4)[1].found_inf


def test_leaves_without_gradients_are_no_error():
    scaling = Scaling([torch.ones(2, requires_grad=True)], "cpu")
    scaling.unscale()
    assert not scaling.found_inf


class Steep:
    """Runs backwards whose gradient in float16 is a factor times the cotangent."""

    def __init__(self):
        self.weight = torch.full((2, 3), 0.5, requires_grad=True)
        case = SimpleNamespace(precision="f16", device="cpu")  # the CPU has no cases of float16
        self.backward = Backward(case, 0, None, lambda call: [self.weight])

    def overflows(self, factor):
        self.weight.grad = None
        output = (self.weight.half() * factor).float()
        self.backward.run([output], Call(), None)
        return self.backward.found_inf


@pytest.mark.parametrize(
    ("factor", "overflows"),
    [(1.0, [False] * 4), (4096.0, [True, True, False, False])],
)
def test_the_scale_falls_until_a_call_does_not_overflow(factor, overflows):
    steep = Steep()
    assert [steep.overflows(factor) for _ in range(4)] == overflows
    assert bool(steep.weight.grad.isfinite().all())


def test_the_scale_stays_after_a_call_that_does_not_overflow():
    steep = Steep()
    assert not steep.overflows(1.0)
    first = steep.weight.grad
    assert steep.overflows(float("inf"))
    assert not steep.overflows(1.0)
    assert torch.equal(first, steep.weight.grad)
