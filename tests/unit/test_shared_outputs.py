"""Outputs of two calls share memory in compiled code only where they do in eager."""

import itertools

import pytest
import torch
from torch import nn

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_forward, test_side_effects
from tests.unit.observed import observation


class Fresh(nn.Module):
    def forward(self, x):
        return x * 2, torch.arange(8)


class Held(nn.Module):
    """Eager returns one tensor in all calls, too."""

    def __init__(self):
        super().__init__()
        self.register_buffer("held", torch.arange(8))

    def forward(self, x):
        return x * 2, self.held


def folding(graph, inputs):
    """Return code that returns the same integers in all calls: who writes to them changes all."""
    kept = []

    def run(*given):
        outputs = graph(*given)
        kept.extend(one for one in outputs if not one.is_floating_point())
        return tuple(one if one.is_floating_point() else kept[0] for one in outputs)

    return run


@pytest.mark.parametrize(
    ("module", "backend", "outcome"),
    [(Fresh, "eager", "passed"), (Held, "eager", "passed"), (Fresh, folding, "failed")],
)
def test_an_output_in_the_memory_of_the_first_one_fails(module, backend, outcome):
    seen = observation(module, backend=backend)
    found = judge(seen, Budget(), "forward", test_forward.rule, ("capture",)).verdict
    assert found.outcome == outcome, (found.summary, found.details)
    assert outcome == "passed" or "compiled first output[1] = output[1]" in found.summary


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


def returning_to(first):
    """Return a compiler whose code returns its results in one memory from a call on."""

    def compiler(graph, inputs):
        count, memory = itertools.count(), []

        def run(*given):
            (y,) = graph(*given)
            if next(count) < first:
                return (y,)
            if not memory:
                memory.append(torch.empty_like(y))
            return (memory[0].copy_(y).view_as(y),)

        return run

    return compiler


@pytest.mark.parametrize(("first", "outcome"), [(0, "failed"), (1, "failed"), (99, "passed")])
def test_memory_that_results_share_from_the_second_call_on_shows(first, outcome):
    wants = ("capture", "vary", "reuse")
    seen = observation(Doubled, backend=returning_to(first), wants=wants)
    for suite in (test_forward, test_side_effects):
        aspect = suite.__name__.removeprefix("suites.test_")
        found = judge(seen, Budget(), aspect, suite.rule, wants[:2]).verdict
        assert found.outcome == outcome, found.details
    which = ("first", "second")[first % 2]
    assert outcome == "passed" or f"{which} output: value differs" in str(found.details)
