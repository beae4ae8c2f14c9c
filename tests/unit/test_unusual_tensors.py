"""Jagged, sparse, 8-bit and complex half tensors are observed like any other ones."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling
from torch.testing._internal.two_tensor import TwoTensor

from compilegate.suites import test_forward, test_gradients, test_side_effects
from tests.unit.observed import Linear, verdict


def with_another(made):
    """Return a builder of a module with a second output, made from the first without gradients."""
    return lambda: Linear(lambda x, y: (y, made(y.detach())))


def eighth(y, factor=1.0):
    return (y / 4 * (factor if is_compiling() else 1.0)).to(torch.float8_e4m3fn)


def half_complex(y, factor=1.0):
    return torch.view_as_complex(y.half().unflatten(1, (-1, 2))) * (
        factor if is_compiling() else 1.0
    )


def sparse(y, factor=1.0):
    return (torch.diag(y[0]) * (factor if is_compiling() else 1.0)).to_sparse()


@pytest.mark.parametrize("made", [eighth, half_complex, sparse])
@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "passed"), (2.0, "failed")])
def test_an_output_of_few_operators_is_compared(made, factor, outcome):
    build = with_another(lambda y: made(y, factor))
    for phase in ("infer", "train"):
        found = verdict(build, phase, "eager", test_forward)
        assert found.outcome == outcome, found


class Graph(Linear):
    """Holds a sparse matrix that another part of a model needs."""

    def __init__(self):
        super().__init__()
        self.register_buffer("neighbours", torch.eye(4).to_sparse())


def test_a_sparse_buffer_stays_as_it_is_while_weights_change():
    found = verdict(Graph, "infer", "eager", test_forward)
    assert found.outcome == "passed", found


class Jagged(nn.Module):
    """Returns a jagged tensor whose first row has three elements; compiled, as many as is said."""

    def __init__(self, factor=1.0, first=3):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.factor, self.first = factor, first

    def forward(self, x):
        values = self.linear(x).sin().values() * (self.factor if is_compiling() else 1.0)
        first = self.first if is_compiling() else 3
        offsets = torch.tensor([0, first, values.shape[0]])
        return torch.nested.nested_tensor_from_jagged(values, offsets)


def jagged(batch):
    rows = [torch.randn(3, 4), torch.randn(batch, 4)]
    return (torch.nested.nested_tensor(rows, layout=torch.jagged),)


@pytest.mark.parametrize(
    ("changed", "suite", "expected"),
    [
        ({}, test_forward, ""),
        ({}, test_gradients, ""),
        ({"factor": 1.01}, test_forward, "output (float32): root mean square error is 0.01"),
        ({"factor": 1.01}, test_gradients, "gradient linear.weight (float32): root mean"),
        (
            {"first": 2},
            test_forward,
            "shape differs: eager (2, [3, 8], 4), compiled (2, [2, 9], 4)",
        ),
    ],
)
def test_a_jagged_tensor_is_compared_with_the_lengths_of_its_rows(changed, suite, expected):
    found = verdict(lambda: Jagged(**changed), "train", "aot_eager", suite, inputs=jagged)
    assert found.outcome == ("failed" if expected else "passed"), found
    assert expected in "\n".join((found.summary, *found.details))


class Eighth(Linear):
    """Multiplies its input of 8 bits with a weight of 8 bits, and keeps a row in a buffer of 8."""

    def __init__(self, factor=1.0, kept=0):
        super().__init__()
        self.register_buffer("scale", torch.rand(4).to(torch.float8_e5m2))
        self.register_buffer("last", torch.zeros(4).to(torch.float8_e4m3fn))
        self.factor, self.kept = factor, kept

    def forward(self, x):
        y = self.linear(x.float()) * self.scale.float()
        self.last.copy_(y.detach()[self.kept if is_compiling() else 0])
        return y * (self.factor if is_compiling() else 1.0)


def in_eight_bits(batch):
    return (torch.randn(batch, 4).to(torch.float8_e4m3fn),)


@pytest.mark.parametrize("phase", ["infer", "train"])
@pytest.mark.parametrize(
    ("changed", "suite", "outcome"),
    [
        ({}, test_forward, "passed"),
        ({}, test_side_effects, "passed"),
        ({"factor": 1.01}, test_forward, "failed"),
        ({"kept": 1}, test_side_effects, "failed"),
    ],
)
def test_inputs_and_buffers_of_eight_bits_are_observed(phase, changed, suite, outcome):
    wants = ("capture", "vary", "reuse", "respecialise", "every_layout")
    found = verdict(
        lambda: Eighth(**changed), phase, "eager", suite, inputs=in_eight_bits, wants=wants
    )
    assert found.outcome == outcome, found


def two(y, factor=1.0):
    return TwoTensor(y.sin(), y.cos() * (factor if is_compiling() else 1.0))


@pytest.mark.parametrize("phase", ["infer", "train"])
@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "passed"), (2.0, "failed")])
def test_a_tensor_that_wraps_others_is_compared_part_by_part(phase, factor, outcome):
    build = with_another(lambda y: two(y, factor))
    found = verdict(build, phase, "aot_eager", test_forward)
    assert found.outcome == outcome, found
    assert (outcome == "passed") or "output[1].b (float32)" in found.summary


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "passed"), (2.0, "failed")])
def test_an_argument_that_wraps_others_is_compared_after_a_write(factor, outcome):
    class Writing(nn.Module):
        def forward(self, x):
            x.mul_(3.0 * (factor if is_compiling() else 1.0))
            return x.sin()

    def inputs(batch):
        return (TwoTensor(torch.rand(batch, 4), torch.rand(batch, 4)),)

    found = verdict(Writing, "infer", "aot_eager", test_side_effects, inputs=inputs)
    assert found.outcome == outcome, found
