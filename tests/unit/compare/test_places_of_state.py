"""Tests of where the tensors of a state lie: a wrong place is found, and no right one."""

import pytest
import torch
from torch import nn

from tests.unit.compare.sides import Compared


class Keeps(nn.Module):
    """Keeps tensors in attributes and in a buffer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("table", torch.zeros(4))
        self.first, self.second = torch.zeros(4), torch.ones(4)

    def forward(self, x):
        return x * 2


def transposed(module, x):
    module.first = (x * 3).t()
    return x * 2


def contiguous(module, x):
    module.first = (x * 3).t().contiguous()
    return x * 2


def replacing(module, x):
    module.table = x[0] * 1.5
    module.first = x[1] * 1.5
    return x * 2


def writing(module, x):
    module.table.copy_(x[0] * 1.5)
    module.first.copy_(x[1] * 1.5)
    return x * 2


def sharing(module, x):
    module.first = x * 3
    module.second = module.first[1:]
    return x * 2


def copying(module, x):
    module.first = x * 3
    module.second = module.first[1:].clone()
    return x * 2


def keeping_the_input(module, x):
    module.first = x
    return x * 2


def copying_the_input(module, x):
    module.first = x.clone()
    return x * 2


def viewing_the_weight(module, x):
    module.first = module.linear.weight.detach().t()
    return x * 2


def copying_the_weight(module, x):
    module.first = module.linear.weight.detach().t().clone()
    return x * 2


PAIRS = {
    "stride": (transposed, contiguous, ["attribute first stride"]),
    "memory": (replacing, writing, ["attribute first memory", "buffer table memory"]),
    "two attributes": (sharing, copying, ["attribute first aliasing"]),
    "input": (keeping_the_input, copying_the_input, ["attribute first aliasing"]),
    "weight": (viewing_the_weight, copying_the_weight, ["attribute first aliasing"]),
}


def faults(ours, theirs):
    class Eager(Keeps):
        forward = ours

    found = Compared(Eager, theirs).state.differences
    return sorted(f"{one.where} {one.what}" for one in found)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_tensor_that_lies_otherwise_is_found(pair):
    ours, theirs, expected = PAIRS[pair]
    assert faults(ours, theirs) == expected
    assert faults(theirs, ours) != []
    assert faults(ours, ours) == faults(theirs, theirs) == []


def test_both_sides_are_named():
    class Eager(Keeps):
        forward = sharing

    (found,) = Compared(Eager, copying).state.differences
    assert (found.eager, found.compiled) == (
        "attribute first = attribute second",
        "no shared memory",
    )


def test_what_lies_in_a_cuda_graph_may_lie_anywhere(monkeypatch):
    monkeypatch.setattr("compilegate.records.case.Case.uses_cuda_graphs", True)
    monkeypatch.setattr("torch.compiler.cudagraph_mark_step_begin", lambda: None)
    assert faults(replacing, writing) == []
