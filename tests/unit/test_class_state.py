"""Tests of model state in classes that a builder made, and in objects among the arguments."""

import copy

import pytest
import torch
from torch import nn

from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.equality import is_same
from compilegate.observe.model.snapshot import Snapshot
from compilegate.observe.model.state import attributes
from tests.unit.compiled import INFER, TRAIN, differences, subject

# Classes that the builder made.


def in_classes():
    class Base(nn.Module):
        n, last, gone, memory = 0, torch.zeros(3), "x", torch.zeros(3)

        def forward(self, x):
            return x + 1

    class Net(Base):
        def forward(self, x):
            Base.n += 1
            Base.last = x * 2
            Base.memory.add_(1)
            Net.seen.append(x.detach())
            return super().forward(x)

    Net.seen = []
    return nn.Sequential(Net(), Base())


CHANGES = {
    "class Base.n": 1,
    "class Base.last": torch.full((3,), 2.0),
    "class Base.memory": torch.ones(3),
    "class Net.seen[0]": torch.ones(3),
}


def test_an_attribute_of_a_class_that_a_call_changes_is_state():
    made = subject(in_classes)
    result = made.call(made.prepare(PlannedCall(0, {})), 0)
    assert result.before["attribute class Base.n"] == 0
    assert all(is_same(result.state[f"attribute {n}"], held) for n, held in CHANGES.items())


def test_a_lost_change_of_a_class_attribute_is_found():
    """See https://github.com/pytorch/pytorch/issues/169253."""
    found = differences(in_classes, theirs=lambda x: x + 1, calls=1)
    assert ("attribute class Base.n", "1", "0") in found
    assert ("attribute class Net.seen[0]", "a tensor", "None") in found


@pytest.mark.parametrize("case", [INFER, TRAIN], ids=["infer", "train"])
def test_equal_changes_of_class_attributes_are_no_difference(case):
    assert differences(in_classes, case, calls=3) == []


def test_class_attributes_are_restored():
    model = in_classes()
    before = {name: copy.copy(value) for name, value in attributes(model)}
    snapshot = Snapshot(model, parameters=False)
    model(torch.ones(3))
    del type(model[1]).gone
    snapshot.put_back()
    after = dict(attributes(model))
    assert after.keys() == before.keys()
    assert all(is_same(after[name], value) for name, value in before.items())


class Shared(nn.Module):
    """A class that all sides share."""

    n = 3


def test_classes_of_one_name_are_distinguished_and_shared_classes_left_out():
    def made(start):
        class Net(nn.Module):
            n = start

        return Net()

    model = nn.Sequential(made(1), made(2), Shared(), torch.fx.symbolic_trace(nn.ReLU()))
    found = {
        name: value
        for name, value in attributes(model)
        if name.startswith("class") and " (" not in name
    }
    assert found == {"class Net.n": 1, "class Net #2.n": 2}


# Objects among the arguments.


class Layer:
    def __init__(self):
        self.keys = torch.zeros(0)


class Cache:
    def __init__(self):
        self.length = 0
        self.layers = [Layer(), Layer()]
        self.owner = self


def given_a_cache():
    return (torch.ones(3), Cache())


def append(x, cache):
    cache.length += x.shape[0]
    for layer in cache.layers:
        layer.keys = torch.cat([layer.keys, x])
    return cache.layers[0].keys.sum()


def append_to_one(x, cache):
    cache.layers[0].keys = torch.cat([cache.layers[0].keys, x])
    return cache.layers[0].keys.sum()


def test_objects_in_the_arguments_are_state():
    made = subject(lambda: append, inputs=given_a_cache)
    result = made.call(made.prepare(PlannedCall(0, {})), 0)
    assert (result.before["input[1].length"], result.state["input[1].length"]) == (0, 3)
    assert result.before["input[1].layers[1].keys"].shape == (0,)
    assert torch.equal(result.state["input[1].layers[1].keys"], torch.ones(3))


@pytest.mark.parametrize("case", [INFER, TRAIN], ids=["infer", "train"])
def test_changes_of_objects_in_the_arguments_are_compared(case):
    assert differences(lambda: append, case, inputs=given_a_cache) == []
    lost = differences(lambda: append, case, inputs=given_a_cache, theirs=append_to_one)
    assert [where for where, _, _ in lost[:2]] == ["input[1].length", "input[1].layers[1].keys"]
