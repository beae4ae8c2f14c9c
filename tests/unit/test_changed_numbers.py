"""A probing call in which modules have other floating attributes."""

from contextlib import nullcontext
from unittest import mock

import pytest
import torch
from torch import nn
from torch._dynamo.guards import GuardBuilder

from compilegate.observe.model.changed_numbers import ChangedNumbers
from tests.unit.probed import WANTS, probed, verdict_of

PROBE = "other numbers in modules"


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)
        self.scale, self.rows = 2.0, 8

    def forward(self, x):
        return self.drop(self.linear(x)) * self.scale


def without_guards():
    """Drop the guards on constants, as a faulty Dynamo would."""
    return mock.patch.object(GuardBuilder, "CONSTANT_MATCH", autospec=True, return_value=None)


def test_floating_attributes_change_and_return():
    net = Scaled()
    changed = ChangedNumbers(net)
    assert (net.scale, net.drop.p, net.rows) == (1.5, 0.375, 8)
    changed.put_back()
    assert (net.scale, net.drop.p) == (2.0, 0.5)


def test_a_negligible_number_becomes_one_that_shows():
    norm = nn.LayerNorm(4, eps=1e-5)
    ChangedNumbers(norm)
    assert norm.eps == 0.01


@pytest.mark.parametrize("faulty", [True, False])
def test_code_that_keeps_an_old_number_shows(faulty):
    with without_guards() if faulty else nullcontext():
        seen = probed(Scaled, wants=WANTS[:4])
    assert PROBE in [one.probe for one in seen.probes], seen.unprobed
    found = verdict_of(seen)
    assert found.outcome == ("failed" if faulty else "passed"), found.details
    assert all(PROBE in line for line in found.details if faulty)


def test_a_model_without_numbers_has_no_such_call():
    seen = probed(lambda: nn.Linear(4, 4), wants=WANTS[:4])
    assert f"{PROBE}: no number of a module changes the output" in seen.unprobed


def test_attributes_are_as_before_afterwards():
    built = []

    def build():
        built.append(Scaled())
        return built[-1]

    probed(build, wants=WANTS)
    assert {net.scale for net in built} == {2.0}
    assert torch.is_tensor(built[0].linear.weight)
