"""Tests of state that no attribute or variable holds: modes, hooks, generators and tensors."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from compilegate.observe.model.snapshot import Snapshot
from tests.unit.compiled import INFER, TRAIN, differences


class Part(nn.Module):
    """A module with two parts, for functions that change something in it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.inner.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        raise NotImplementedError


def leave_training(module, x):
    module.inner.train(not module.inner.training)


def add_a_hook(module, x):
    module.inner.register_forward_hook(lambda module, args, output: None)


def keep_out_of_state_dict(module, x):
    module.inner.register_buffer("seen", module.inner.seen, persistent=False)


def freeze(module, x):
    module.inner.weight.requires_grad_(False)


def draw_in_python(module, x):
    random.random()


def draw_in_numpy(module, x):
    np.random.rand()


def mark_the_input(module, x):
    x.seen = True


CHANGES = {
    leave_training: "attribute inner.training",
    add_a_hook: "attribute hooks of inner",
    keep_out_of_state_dict: "attribute buffers of inner outside state_dict",
    freeze: "parameter inner.weight",
    draw_in_python: "Python's random generator",
    draw_in_numpy: "NumPy's random generator",
    mark_the_input: "input[0].seen",
}


def changing(change):
    class Changing(Part):
        def forward(self, x):
            y = self.inner(x)
            change(self, x)
            return y

    return Changing()


@pytest.mark.parametrize("case", [INFER, TRAIN], ids=["infer", "train"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_compiled_code_makes_is_no_difference(change, case):
    assert differences(lambda: changing(change), case, calls=3) == []


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_compiled_code_loses_is_found(change):
    module = changing(lambda module, x: None)
    found = differences(lambda: changing(change), theirs=module, calls=1)
    assert CHANGES[change] in {where for where, *_ in found}


def test_an_attribute_of_an_output_is_compared():
    def mark(x):
        y = x * 2
        y.kind = "logits"
        return y

    assert differences(lambda: mark) == []
    lost = differences(lambda: mark, theirs=lambda x: x * 2, calls=1)
    assert lost == [("output", "{'kind': 'logits'}", "{}")]


def test_a_snapshot_restores_modes_and_hooks():
    module = Part()
    snapshot = Snapshot(module, parameters=False)
    leave_training(module, None)
    add_a_hook(module, None)
    snapshot.put_back()
    assert module.inner.training
    assert not module.inner._forward_hooks
