"""Tests of gradient scaling: gradients return unscaled, and overflow is reported."""

import pytest
import torch

from compilegate.observe.model.grad_scaling import SCALE, Scaling


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
