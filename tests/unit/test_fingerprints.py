"""Tests of what shows that a call wrote to a tensor."""

import itertools

import pytest
import torch

from compilegate.observe.model.fingerprints import fingerprints


def parameter(size, dtype=torch.float32, start=0):
    torch.manual_seed(0)
    return torch.nn.Parameter(torch.randn(start + size, dtype=dtype)[start:])


PARAMETERS = {
    "pairs": lambda: parameter(6),
    "an odd number": lambda: parameter(7),
    "one": lambda: parameter(1),
    "an odd start": lambda: parameter(6, start=1),
    "two dimensions": lambda: torch.nn.Parameter(torch.randn(4, 2)),
    "transposed": lambda: torch.nn.Parameter(torch.randn(4, 2).T),
    "half precision": lambda: parameter(8, torch.bfloat16),
    "half precision, an odd number": lambda: parameter(7, torch.bfloat16),
    "double precision": lambda: parameter(3, torch.float64),
    "complex": lambda: parameter(3, torch.complex64),
}


@pytest.mark.parametrize("make", PARAMETERS.values(), ids=PARAMETERS)
def test_a_write_that_autograd_does_not_count_shows(make):
    weight = make()
    known = fingerprints({}, {"weight": weight})
    assert fingerprints({}, {"weight": weight}) == known
    numbers = torch.view_as_real(weight.data) if weight.is_complex() else weight.data
    for place in itertools.product(*map(range, numbers.shape)):
        numbers[place] *= 2
        assert fingerprints({}, {"weight": weight}) != known
        numbers[place] /= 2
        assert fingerprints({}, {"weight": weight}) == known


def test_a_replaced_tensor_and_a_counted_write_show():
    buffer = torch.ones(3)
    known = fingerprints({"buffer": buffer}, {})
    assert fingerprints({"buffer": buffer.clone()}, {}) != known
    buffer.add_(0.0)
    assert fingerprints({"buffer": buffer}, {}) != known
