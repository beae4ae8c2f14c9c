"""Tests of the kinds of values in which a model keeps state: each loss is found, and no twin."""

import dataclasses
import enum
import random
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from compilegate.observe.model.build import parameters_of
from tests.unit.compare.sides import TRAIN, Compared, complaints


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


class Cache:
    """An object with state of its own."""

    def __init__(self):
        self.rows = 3


class Table(Cache):
    """Another one."""


def holding(value):
    """Return an object that holds another one, three objects deep."""
    outer, middle, inner = Cache(), Cache(), Cache()
    outer.held, middle.held, inner.held = middle, inner, value
    return outer


class Holds(nn.Module):
    """Assigns a value in each call."""

    def __init__(self):
        super().__init__()
        self.held = None

    def forward(self, x):
        return x * 2


KINDS = {
    "float": (lambda: 0.5, lambda: 0.25),
    "complex": (lambda: 2j, lambda: 3j),
    "bytes": (lambda: b"a", lambda: b"b"),
    "enum": (lambda: Mode.FAST, lambda: Mode.EXACT),
    "dtype": (lambda: torch.float32, lambda: torch.float64),
    "array": (lambda: np.ones(3), lambda: np.zeros(3)),
    "floats in a list": (lambda: [1.0, 2.0], lambda: [1.0, 3.0]),
    "set of tuples": (lambda: {(1, 2)}, lambda: {(1, 3)}),
    "key": (lambda: {1: 5}, lambda: {"1": 5}),
    "container": (lambda: (3, 4), lambda: [3, 4]),
    "empty container": (list, dict),
    "class of an object": (lambda: holding(Cache()), lambda: holding(Table())),
    "deep object": (lambda: holding(1), lambda: holding(2)),
    "long list": (lambda: [0] * 99 + [1], lambda: [0] * 99 + [2]),
    "generator": (lambda: random.Random(1), lambda: random.Random(2)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_attribute_that_ends_otherwise_is_found(kind):
    right, wrong = KINDS[kind]

    class Sets(Holds):
        def forward(self, x):
            self.held = right()
            return x * 2

    def with_held(value, module, x):
        module.held = value()
        return x * 2

    found = faults(Compared(Sets, partial(with_held, wrong)))
    assert found
    assert all(one.startswith("attribute held") for one in found)
    assert faults(Compared(Sets, partial(with_held, right))) == []


@pytest.mark.parametrize("loses", [True, False])
def test_a_change_of_a_float_on_one_side_alone_is_found(loses):
    class Halves(Holds):
        def forward(self, x):
            self.held = 0.5
            return x * 2

    def halving(module, x):
        module.held = 0.5
        return x * 2

    ours, theirs = (Halves, lambda module, x: x * 2) if loses else (Holds, halving)
    (found,) = faults(Compared(ours, theirs))
    assert found.startswith("attribute held")
    assert faults(Compared(Halves, halving)) == []


def test_a_generator_that_drew_otherwise_is_found():
    class Draws(Holds):
        def __init__(self):
            super().__init__()
            self.numbers = random.Random(3)

        def forward(self, x):
            self.numbers.random()
            return x * 2

    assert faults(Compared(Draws, lambda module, x: x * 2)) == ["attribute numbers value"]
    assert faults(Compared(Draws, lambda module, x: module(x))) == []


def test_a_module_that_is_another_one_is_found():
    class Chooses(Holds):
        def forward(self, x):
            self.chosen = nn.Tanh()
            return x * 2

    def choosing(made, module, x):
        module.chosen = made()
        return x * 2

    assert "attribute chosen (class) value" in faults(Compared(Chooses, partial(choosing, nn.ReLU)))
    assert faults(Compared(Chooses, partial(choosing, nn.Tanh))) == []


@pytest.mark.parametrize("place", ["buffer", "attribute", "list"])
def test_a_wrong_gradient_of_a_tensor_that_is_no_parameter_is_found(place):
    class Shifts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            shift = torch.ones(4, requires_grad=True)
            if place == "buffer":
                self.register_buffer("shift", shift)
            else:
                self.shift = [nn.Parameter(torch.ones(4))] if place == "list" else shift

        def forward(self, x):
            return x * self.weight + (self.shift[0] if place == "list" else self.shift)

    def lost(module, x):
        shift = module.shift[0] if place == "list" else module.shift
        return x * module.weight + shift.detach()

    (found,) = Compared(Shifts, lost, case=TRAIN).gradients.differences
    assert found.where.endswith(("buffer shift", "attribute shift", "attribute shift[0]"))
    assert Compared(Shifts, lambda m, x: m(x), case=TRAIN).gradients.differences == ()


def test_a_gradient_in_another_layout_is_found():
    class Embeds(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(20, 4))

        def forward(self, x, *, sparse=True):
            rows = torch.arange(6)
            return x + nn.functional.embedding(rows, self.weight, sparse=sparse)

    (found,) = Compared(Embeds, lambda m, x: m(x, sparse=False), case=TRAIN).gradients.differences
    assert (found.what, found.eager, found.compiled) == ("layout", "sparse_coo", "strided")
    assert Compared(Embeds, lambda m, x: m(x), case=TRAIN).gradients.differences == ()


def test_a_loss_in_an_attribute_that_lost_its_history_is_found():
    class Balances(Holds):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            y = x * self.weight
            self.held = y.square().mean()
            return y

    def detached(module, x):
        y = module(x)
        module.held = module.held.detach()
        return y

    made = Compared(Balances, detached, case=TRAIN)
    assert "attribute held requires_grad" in faults(made)
    assert faults(Compared(Balances, lambda module, x: module(x), case=TRAIN)) == []


def test_an_output_that_shares_memory_with_an_attribute_is_found():
    class Remembers(Holds):
        def __init__(self):
            super().__init__()
            self.held = torch.ones(3)

        def forward(self, x):
            return x * 2, self.held.clone()

    found = Compared(Remembers, lambda module, x: (x * 2, module.held)).outputs.differences
    assert [one.what for one in found] == ["aliasing"]
    assert Compared(Remembers, lambda module, x: module(x)).outputs.differences == ()


def test_a_tensor_on_an_output_is_compared():
    def marked(factor, x):
        y = x * 2
        y.mean_of_x = x.mean() * factor
        return y

    wrong = Compared(partial(marked, 1), partial(marked, 2)).outputs
    assert [text.partition(" ")[0] for text in complaints(wrong)] == ["output.mean_of_x"]
    assert complaints(Compared(partial(marked, 1), partial(marked, 1)).outputs) == []


@dataclasses.dataclass
class Record:
    """A record, on which models leave more than its field."""

    y: torch.Tensor


class Rows(list):
    """A list of its own class."""


class Named(dict):
    """A dict of its own class."""


@pytest.mark.parametrize("made", [Record, lambda y: Rows([y]), lambda y: Named(y=y)])
@pytest.mark.parametrize("attribute", [lambda x: x.mean(), len])
def test_an_attribute_of_a_container_in_the_output_is_compared(made, attribute):
    def with_total(factor, x):
        output = made(x * 2)
        output.total = attribute(x) * factor
        return {"rows": output}

    wrong = Compared(partial(with_total, 1), partial(with_total, 2)).outputs
    found = [text.partition(" ")[0] for text in complaints(wrong)]
    assert [*found, *(one.where for one in wrong.differences)] == ["output.rows.total"]
    lost = Compared(partial(with_total, 1), lambda x: {"rows": made(x * 2)}).outputs
    assert [one.where for one in lost.differences] == ["output.rows.total"]
    right = Compared(partial(with_total, 1), partial(with_total, 1)).outputs
    assert [*complaints(right), *right.differences] == []


@pytest.mark.parametrize("how", ["closure", "method", "partial", "object"])
def test_the_modules_that_a_callable_holds_are_the_models(how):
    class Calls:
        def __init__(self, net):
            self.net = net

        def __call__(self, x):
            return self.net(x)

    def made():
        net = nn.Linear(4, 4)
        return {
            "closure": lambda x: 2 * net(x),
            "method": net.forward,
            "partial": partial(lambda net, x: 2 * net(x), net),
            "object": Calls(net),
        }[how]

    names = [name.rpartition(".")[2] for name in parameters_of(made())]
    assert sorted(names) == ["bias", "weight"]


def faults(made):
    """Return what differs in the state, as texts."""
    found = [f"{one.where} {one.what}" for one in made.state.differences]
    return found + [text.partition(" (")[0] for text in complaints(made.state)]
