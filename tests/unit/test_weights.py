"""Tests of the check that a builder returns the same weights each time."""

import pytest
import torch
from torch import nn

from compilegate.observe.model import weights
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model

INFER = Case.parse("m-cpu-infer-f32-default-static")
OTHERS = (
    "the builder returns different weights each time: {} differs between two builds under one seed"
)


def sample(module):
    return weights.sample(Subject(Model("m", "m", build=lambda: Example(module)), INFER, 0))


def built(change=lambda net: None, kind=lambda: nn.BatchNorm1d(4)):
    torch.manual_seed(0)
    net = kind()
    with torch.no_grad():
        change(net)
    return sample(net)


@pytest.mark.parametrize(
    "kind",
    [
        lambda: nn.BatchNorm1d(4),
        lambda: nn.Linear(40, 60).bfloat16(),
        lambda: nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last),
        lambda: nn.Linear(4, 4, dtype=torch.complex64),
        nn.ReLU,
    ],
)
def test_equal_weights_are_accepted(kind):
    weights.refuse_others(built(kind=kind), built(kind=kind))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("parameter weight", lambda net: net.weight.normal_()),
        ("parameter bias", lambda net: net.bias.add_(0.01)),
        ("buffer running_var", lambda net: net.running_var.mul_(2)),
        ("buffer num_batches_tracked", lambda net: net.num_batches_tracked.add_(1)),
    ],
)
def test_the_first_tensor_that_differs_is_named(name, change):
    with pytest.raises(ValueError, match=OTHERS.format(name)):
        weights.refuse_others(built(), built(change))


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match=OTHERS.format("parameter weight")):
        weights.refuse_others(built(), built(kind=lambda: nn.BatchNorm1d(5)))


def test_differences_by_rounding_are_accepted():
    weights.refuse_others(built(), built(lambda net: net.weight.mul_(1 + 2e-7)))


def test_a_buffer_that_a_call_writes_first_may_differ():
    spoilt = built(lambda net: net.running_mean.fill_(torch.nan))
    weights.refuse_others(built(), spoilt, {"buffer running_mean"})


def test_a_sample_is_a_copy_of_few_elements():
    net = nn.Linear(1000, 1000)
    taken = sample(net)
    assert taken["parameter weight"].numel() < 2000
    before = taken["parameter bias"].clone()
    nn.init.zeros_(net.bias)
    assert torch.equal(taken["parameter bias"], before)
