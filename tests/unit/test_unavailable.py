"""Tests of steps that cannot be taken because eager raises."""

import pytest
import torch

from compilegate.observe.practices.unavailable import (
    StepUnavailableError,
    check_eager,
    unless_eager_raises,
)


def test_what_eager_raises_is_the_reason():
    with (
        pytest.raises(StepUnavailableError, match=r"^eager raises ValueError: no such size$"),
        unless_eager_raises(),
    ):
        raise ValueError("no such size")
    with pytest.raises(StepUnavailableError, match=r"^eager raises ValueError: no such size$"):
        check_eager(ValueError("no such size"))


@pytest.mark.parametrize(
    "error",
    [
        StepUnavailableError("the model has no loss"),
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered", 700),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
    ids=["a reason of its own", "a lost GPU", "out of memory"],
)
def test_an_error_that_is_no_mistake_of_the_model_is_raised_again(error):
    with pytest.raises(type(error)) as raised, unless_eager_raises():
        raise error
    assert raised.value is error


def test_nothing_is_raised_where_eager_returns():
    with unless_eager_raises():
        check_eager(None)
