"""Equality of values, bit by bit."""

import math

import pytest
import torch

from compilegate.observe.model.equality import is_same

X = torch.tensor([1.0, math.nan, -0.0])


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (X.clone(), True),
        (X[:2], False),
        (X.double(), False),
        (torch.tensor([1.0, math.nan, 2.0]), False),
        (X.to("meta"), False),
        ([1.0], False),
    ],
    ids=["copy", "shape", "dtype", "value", "device", "no tensor"],
)
def test_tensors_are_the_same_in_shape_dtype_device_and_numbers(other, same):
    assert is_same(X, other) is same
