"""Outputs that are an input, a buffer or another output: the same object, or a view of it."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.observe.model.result import KNOWS_IDENTITIES
from tests.unit.observed import Linear, verdict

pytestmark = pytest.mark.skipif(not KNOWS_IDENTITIES, reason="identities are not compared")


def itself(x, y):
    return x, y


def a_view(x, y):
    return x.view_as(x), y


def one_output_twice(x, y):
    return y, y


def an_output_and_its_view(x, y):
    return y, y.view_as(y)


def otherwise_compiled(function, other):
    return lambda x, y: other(x, y) if is_compiling() else function(x, y)


@pytest.mark.parametrize("phase", ["infer", "train"])
@pytest.mark.parametrize(
    ("function", "other", "eager", "compiled"),
    [
        (itself, a_view, "input[0] is output[0]", "another object"),
        (a_view, itself, "another object", "input[0] is output[0]"),
        (one_output_twice, an_output_and_its_view, "output[0] is output[1]", "another object"),
    ],
)
def test_a_view_in_place_of_the_object_shows(function, other, eager, compiled, phase):
    found = verdict(lambda: Linear(otherwise_compiled(function, other)), phase)
    assert found.outcome == "failed"
    said = f"output: identity differs: eager {eager}, compiled {compiled}"
    assert any(said in line for line in (found.summary, *found.details))


HEALTHY = {
    "input": itself,
    "view of an input": a_view,
    "output twice": one_output_twice,
    "output and its view": an_output_and_its_view,
    "operators that return their input": lambda x, y: (
        x.contiguous(),
        x.float(),
        x.type_as(y),
        nn.functional.dropout(x, 0.5, training=False),
        y,
    ),
    "parts of an output": lambda x, y: (y, y[1:], *y.unbind(1), y.contiguous(), y.view(-1)),
    "reshapes that may copy": lambda x, y: (x.reshape(x.shape), x.flatten(1), x.expand_as(x), y),
    "operators in place": lambda x, y: (y, y.add_(1), y.mul_(2)),
    "an input that is detached": lambda x, y: (x.detach(), x.data, y),
}


@pytest.mark.parametrize("phase", ["infer", "train"])
@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_code_returns_the_same_objects(name, phase):
    found = verdict(lambda: Linear(HEALTHY[name]), phase, "aot_eager")
    assert found.outcome == "passed", found.details


def test_a_buffer_is_the_same_object():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            return self.seen.add_(x.sum(0)), self.seen, x + self.seen

    found = verdict(Counts, backend="aot_eager")
    assert found.outcome == "passed", found.details


class Shows(Linear):
    """Returns its weight. Compiled code may return a view of it."""

    def __init__(self, copies):
        super().__init__()
        self.copies = copies

    def forward(self, x):
        weight = self.linear.weight
        return self.linear(x), weight.view_as(weight) if self.copies and is_compiling() else weight


@pytest.mark.parametrize("phase", ["infer", "train"])
def test_a_parameter_is_the_same_object(phase):
    found = verdict(lambda: Shows(copies=False), phase, backend="aot_eager")
    assert found.outcome == "passed", found.details
    found = verdict(lambda: Shows(copies=True), phase, backend="aot_eager")
    assert found.outcome == "failed"
    said = "identity differs: eager output[1] is parameter linear.weight, compiled another object"
    assert any(said in line for line in (found.summary, *found.details))
