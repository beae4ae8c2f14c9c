"""Iterators that a model keeps are state: compared, and put back between calls."""

import itertools
import warnings

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.observe.model.iterators import position_of
from compilegate.observe.model.snapshot import Snapshot
from compilegate.suites import test_forward, test_side_effects
from tests.unit.observed import Linear, verdict

NUMBERS = [1, 2, 3]
MADE = {
    "count": itertools.count,
    "count by steps": lambda: itertools.count(1.5, -0.5),
    "cycle": lambda: itertools.cycle(NUMBERS),
    "cycle of a range": lambda: itertools.cycle(range(2)),
    "empty cycle": lambda: itertools.cycle([]),
    "repeat": lambda: itertools.repeat(3, 4),
    "list": lambda: iter(NUMBERS),
    "tuple": lambda: iter((1, 2)),
    "range": lambda: iter(range(3)),
    "range by steps": lambda: iter(range(7, 0, -3)),
    "long range": lambda: iter(range(2**99)),
    "text": lambda: iter("é"),
    "enumerate": lambda: enumerate(NUMBERS),
    "zip": lambda: zip(NUMBERS, itertools.count(), strict=False),
}


def advanced(made, steps):
    for _ in range(steps):
        next(made, None)
    return made


@pytest.fixture(autouse=True)
def only_where_itertools_copies():
    """From Python 3.14 on, only iterators of sequences and counts say where they stand."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        if not hasattr(itertools.cycle, "__setstate__"):
            pytest.skip("itertools copies nothing")


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("steps", range(6))
def test_a_copy_goes_on_as_the_iterator_does_and_does_not_advance_it(kind, steps):
    made = advanced(MADE[kind](), steps)
    position = position_of(made)
    expected = [*itertools.islice(advanced(MADE[kind](), steps), 8)]
    for _ in range(2):
        assert [*itertools.islice(position.again(), 8)] == expected
    assert position_of(made) == position
    assert [*itertools.islice(made, 8)] == expected


@pytest.mark.parametrize("kind", MADE)
def test_a_position_depends_only_on_how_far_an_iterator_is(kind):
    for steps in range(5):
        for more in range(5):
            copied = advanced(position_of(advanced(MADE[kind](), steps)).again(), more)
            assert position_of(copied) == position_of(advanced(MADE[kind](), steps + more))


def test_other_values_have_no_position():
    in_it = itertools.cycle(number for number in NUMBERS)
    for value in (3, "text", NUMBERS, (number for number in NUMBERS), in_it, torch.ones(2)):
        assert position_of(value) is None


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.held = itertools.count(), {"rates": [iter(NUMBERS)]}
        self.octets = bytearray(2)
        self.layers = nn.ModuleList([nn.Identity(), nn.ReLU()])
        self.turns = itertools.cycle(self.layers)

    def call(self):
        self.octets[0] += 1
        return next(self.calls), next(self.held["rates"][0]), next(self.turns), self.octets[0]


def test_a_snapshot_puts_iterators_and_bytes_back_again_and_again():
    module = Keeps()
    module.call()
    snapshot = Snapshot(module, parameters=False)
    kept = module.calls
    snapshot.put_back()
    assert module.calls is kept  # nobody advanced it
    expected = (1, 2, module.layers[1], 2)
    for _ in range(3):
        assert module.call() == expected
        snapshot.put_back()


class Scales(Linear):
    """Scales its output by the next number. Compiled code may forget to take it."""

    def __init__(self, made, takes):
        super().__init__()
        self.scales, self.takes = made(), takes

    def forward(self, x):
        scale = next(self.scales) if self.takes or not is_compiling() else 1.0
        return self.linear(x) * (scale if self.takes else 1.0)


class Counts(Linear):
    def __init__(self, takes):
        super().__init__()
        self.octets, self.takes = bytearray(2), takes

    def forward(self, x):
        if self.takes or not is_compiling():
            self.octets[1] += 1
        return self.linear(x)


WANTS = ("capture", "vary", "reuse", "respecialise", "every_layout")


@pytest.mark.parametrize("phase", ["infer", "train"])
@pytest.mark.parametrize(
    "made", [lambda: itertools.count(1.0), lambda: itertools.cycle([1.0, 3.0, 2.0])]
)
def test_a_model_that_takes_numbers_from_an_iterator_passes(phase, made):
    for suite in (test_forward, test_side_effects):
        found = verdict(lambda: Scales(made, takes=True), phase, "eager", suite, wants=WANTS)
        assert found.outcome == "passed", found


def test_an_iterator_that_compiled_code_does_not_advance_fails():
    made = lambda: Scales(itertools.count, takes=False)  # noqa: E731
    found = verdict(made, "infer", "eager", test_side_effects)
    assert found.outcome == "failed"
    assert "attribute scales: value differs: eager count(1), compiled count(0)" in found.summary


@pytest.mark.parametrize(("takes", "outcome"), [(True, "passed"), (False, "failed")])
def test_an_array_of_bytes_is_state(takes, outcome):
    found = verdict(lambda: Counts(takes), "infer", "eager", test_side_effects, wants=WANTS)
    assert found.outcome == outcome, found
