"""Tests of compared parameters."""

import pytest
import torch

from compilegate.observe.compare.nearest_reference import Nudge
from compilegate.observe.compare.parameters import compare_parameters
from tests.unit.compare.sides import (
    complaints,
)
from tests.unit.excess import exceeds


def test_a_parameter_changed_on_one_side_is_found():
    ours = {"w": torch.ones(3), "v": torch.ones(2)}
    theirs = {"w": torch.tensor([1.0, 2.0, 1.0]), "v": torch.ones(2)}
    (found,) = compare_parameters(ours, ours, theirs, {}).differences
    assert (found.where, found.what) == ("parameter w", "value")
    assert found.compiled == "2.0 there; 1 of 3 elements differ"


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99, 2.0])
def test_a_lost_or_scaled_update_is_found(share):
    initial = torch.randn(50)
    update = 1e-3 * torch.randn(50)
    ours, theirs = initial + update, initial + share * update
    expected = {"w": initial.double() + update.double()}
    checked = compare_parameters({"w": initial}, {"w": ours}, {"w": theirs}, expected)
    (text,) = complaints(checked)
    assert text.startswith("update w (float32)")


@pytest.mark.parametrize(("off", "is_right"), [(6e-8, True), (1e-4, False)])
def test_a_step_lost_in_rounding_is_compared_by_the_parameter(off, is_right):
    initial = {"w": torch.linspace(0.5, 1.0, 64)}
    expected = {"w": initial["w"].double() + 1e-19}
    compiled = {"w": initial["w"] + off * (torch.arange(64) == 7)}
    checked = compare_parameters(initial, initial, compiled, expected, stepped=("w",))
    assert (complaints(checked) == []) is is_right


def test_an_update_that_rounds_differently_passes():
    initial, update = torch.randn(50), 1e-3 * torch.randn(50)
    expected = {"w": initial.double() + update.double()}
    theirs = {"w": (initial.double() + update.double() * (1 + 1e-6)).float()}
    checked = compare_parameters({"w": initial}, {"w": initial + update}, theirs, expected)
    assert complaints(checked) == []


@pytest.mark.parametrize(("units", "is_right"), [(1, True), (9, False)])
def test_one_element_of_a_short_step_may_round_the_other_way(units, is_right):
    """The reference rounds as eager does, so that eager does not seem to err."""
    initial = torch.linspace(0.07, 0.12, 20_000)
    eager = initial - 2e-5 * torch.randn(20_000)
    compiled = eager.clone()
    compiled[7] += units * 2.0**-27
    expected = {"w": eager.double()}
    checked = compare_parameters({"w": initial}, {"w": eager}, {"w": compiled}, expected)
    assert (complaints(checked) == []) is is_right


@pytest.mark.parametrize("value", [torch.zeros(0), torch.zeros(3), torch.full((2,), torch.inf)])
def test_a_step_of_a_parameter_without_a_scale_is_compared(value):
    initial = {"w": value + 0, "v": torch.ones(2)}
    now = {"w": value - 0, "v": torch.zeros(2)}
    assert complaints(compare_parameters(initial, now, now, {}, stepped=("w", "v"))) == []


@pytest.mark.parametrize(
    ("eager", "compiled", "found"),
    [
        ({}, {}, []),
        ({}, {"w": torch.ones(2)}, ["parameter w"]),
        ({"w": torch.ones(3)}, {"w": torch.ones(3)}, []),
        ({"w": torch.ones(3)}, {"w": torch.zeros(3)}, ["parameter w"]),
        ({"w": torch.ones(2), "new": torch.ones(3)}, {"w": torch.ones(2)}, ["parameter new"]),
    ],
    ids=["removed", "kept", "replaced", "replaced by another", "not added"],
)
def test_parameters_that_an_action_replaces_are_compared_by_value(eager, compiled, found):
    checked = compare_parameters({"w": torch.ones(2)}, eager, compiled, eager)
    wrong = [d.where for d in checked.differences]
    wrong += [error.name for error in checked.errors if exceeds(error, 0.0)]
    assert wrong == found


@pytest.mark.parametrize(("noise", "is_right"), [(0.02, True), (1e-7, False)])
def test_eager_s_noise_is_asked_for_where_it_is_needed_alone(noise, is_right):
    torch.manual_seed(0)
    initial = {name: torch.randn(50) for name in ("w", "v")}
    update = {name: 1e-3 * torch.randn(50) for name in initial}
    eager = {name: initial[name] + update[name] for name in initial}
    compiled = {**eager, "w": initial["w"] + 1.01 * update["w"]}
    expected = {name: initial[name].double() + update[name].double() for name in initial}
    asked = []

    def samples(names):
        asked.append(names)
        moved = {n: eager[n] + noise * update[n] * torch.randn(50) for n in names}
        return [(moved, Nudge(1.0, 1.0)) for _ in range(4)]

    checked = compare_parameters(initial, eager, compiled, expected, samples=samples)
    assert asked == [["w"]]
    assert [error.samples for error in checked.errors] == [4, 0]
    assert (complaints(checked) == []) is is_right
