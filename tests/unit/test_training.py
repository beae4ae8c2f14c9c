"""Tests of the steps between calls: large enough to show, small enough to keep the model."""

import pytest
import torch
from torch import nn

from compilegate.observe.compare.call_comparer import CallComparer
from compilegate.observe.compare.training import Training
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.learning_rates import LearningRates
from compilegate.observe.model.reference import Reference
from compilegate.observe.model.subject import Subject
from compilegate.observe.time_spent import TimeSpent
from compilegate.records.case import Case
from compilegate.zoo.example import Call, Example
from compilegate.zoo.registry import Model
from tests.unit.excess import exceeds

TRAIN = Case.parse("m-cpu-train-f32-default-static")
FIRST, SECOND = PlannedCall(0, {}), PlannedCall(1, {})


def net():
    layers = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    return Example(layers, inputs=lambda: (torch.randn(6, 8),))


def wide():
    return Example(nn.Linear(8, 32), inputs=lambda: (torch.randn(6, 8),))


def subject(build=net, **how):
    return Subject(Model("m", "m", build=build), TRAIN, 0, **how)


def call(side, planned=FIRST):
    return side.call(side.prepare(planned), planned.index)


def trained(spoil=lambda module: None, calls=2):
    """Return the compared parameters after some calls; ``spoil`` runs after each call."""
    model = Model("m", "m", build=net)
    reference = Reference(lambda lifting: Subject(model, TRAIN, 0, lifting=lifting))
    eager, compiled = subject(), subject()
    training = Training(eager, compiled, half=False)
    for planned in (FIRST, SECOND)[:calls]:
        (truth,) = reference.results(planned)
        result = call(eager, planned)
        call(compiled, planned)
        spoil(compiled.module)
        checked = training.step(planned.index, result, truth, reference.rates)
    found = [d.where for d in checked.differences]
    return found + [text.split(" (")[0] for e in checked.errors if (text := exceeds(e, 0.0))]


def rates(side, result):
    return LearningRates().for_call(0, side.parameters(), result)


def test_a_step_changes_the_outputs_by_a_few_percent():
    side = subject()
    before = call(side)
    side.update(rates(side, before))
    after = call(side)
    change = (after.output["output"] - before.output["output"]).norm()
    assert 0.01 < float(change / before.output["output"].norm()) < 0.1


def test_a_step_moves_a_parameter_at_zero():
    side = subject()
    torch.nn.init.zeros_(side.module[2].bias)
    assert rates(side, call(side))["2.bias"] > 0


def test_a_gradient_of_noise_moves_its_parameter_little():
    side = subject()
    result = call(side)
    result.gradients["0.bias"] *= 1e-9
    step = rates(side, result)["0.bias"] * float(result.gradients["0.bias"].norm())
    assert step < 1e-5 * float(side.module[0].bias.detach().norm())


def test_without_gradients_there_is_no_step():
    side = subject()
    result = call(side)
    result.gradients.clear()
    assert rates(side, result) == {}


def test_the_first_request_sets_the_learning_rates():
    shared, side = LearningRates(), subject()
    result = call(side)
    first = shared.for_call(0, side.parameters(), result)
    result.gradients["0.weight"] *= 2
    assert shared.for_call(0, side.parameters(), result) is first


def test_growing_gradients_take_no_longer_steps():
    shared, side = LearningRates(), subject()
    result = call(side)
    first = shared.for_call(0, side.parameters(), result)
    for gradient in result.gradients.values():
        gradient.mul_(100)
    second = shared.for_call(1, side.parameters(), result)
    assert second == {name: pytest.approx(rate / 100) for name, rate in first.items()}


def test_outputs_that_diverge_end_the_steps():
    shared, side = LearningRates(), subject(wide)
    first = call(side)
    assert any(shared.for_call(0, side.parameters(), first).values())
    assert any(shared.for_call(1, side.parameters(), call(side, SECOND)).values())
    with torch.no_grad():
        side.module.weight.mul_(5)
    assert not any(shared.for_call(2, side.parameters(), call(side, SECOND)).values())


def test_equal_steps_on_both_sides_are_no_difference():
    assert trained() == []


@pytest.mark.parametrize("calls", [1, 2])
def test_a_lost_update_is_found(calls):
    def loses(module):
        module[0].weight.grad = None

    assert "update 0.weight" in trained(loses, calls)


def test_a_parameter_that_a_call_replaces_is_found():
    def overwrites(module):
        with torch.no_grad():
            module[2].bias.add_(1e-3)

    assert trained(overwrites) == ["update 2.bias"]


def test_models_that_step_their_own_optimizer_get_no_other_step():
    def build():
        linear = nn.Linear(3, 3)
        optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
        x = torch.ones(2, 3)
        return Example(linear, calls=[Call((x,)), Call((x,), before=optimizer.step)])

    eager, compiled, reference = subject(build), subject(build), subject(build, lifting=Lifting())
    training = Training(eager, compiled, half=False)
    for planned in (FIRST, SECOND):
        result, truth = call(eager, planned), call(reference, planned)
        call(compiled, planned)
        checked = training.step(planned.index, result, truth, LearningRates())
        assert [error.name for error in checked.errors] == (
            ["update weight", "update bias"] if planned is SECOND else []
        )
        assert all(error.has_reference and error.compiled_rms < 1e-5 for error in checked.errors)


class Writes(nn.Module):
    """A module that averages a parameter in forward, like MoCo and DINO, or clamps it."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.query = nn.Linear(8, 4)
        self.centre = nn.Parameter(torch.zeros(4), requires_grad=False)

    def forward(self, x):
        y = self.query(x)
        if self.how == "average":
            with torch.no_grad():
                self.centre.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        if self.how == "average data":
            self.centre.data = self.centre.data * 0.9 + y.detach().mean(0) * 0.1
        if self.how == "clip":
            self.query.weight.data.clamp_(-0.1, 0.1)
        return y - self.centre


@pytest.mark.parametrize("how", ["average", "average data", "clip"])
@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize("phase", ["train", "infer"])
def test_a_write_of_forward_to_a_parameter_is_compared(how, is_lost, phase):
    def build(how=how):
        return Example(Writes(how), inputs=lambda: (torch.randn(6, 8),))

    case = Case.parse(f"m-cpu-{phase}-f32-default-static")
    model = Model("m", "m", build=build)
    eager = Subject(model, case, 0)
    spoilt = Model("m", "m", build=lambda: build(""))
    compiled = Subject(spoilt if is_lost else model, case, 0)
    reference = Reference(lambda lifting: Subject(model, case, 0, lifting=lifting))
    comparison = CallComparer(
        eager, compiled, reference, lambda: Subject(model, case, 0), TimeSpent(), half=False
    )
    found = []
    for planned in (FIRST, SECOND):
        results = (call(eager, planned), call(compiled, planned))
        _, gradients, state = comparison.of_call(planned, *results)
        updates = gradients if phase == "train" else state
        assert all(e.eager_rms < 1e-3 for e in updates.errors), updates.errors
        found += [e.name for e in updates.errors if exceeds(e, 0.0)]
    written = "update query.weight" if how == "clip" else "update centre"
    assert (written in found) is is_lost


def test_a_gradient_near_zero_makes_no_step():
    side = subject()
    result = call(side)
    for gradient in result.gradients.values():
        gradient.mul_(1e-42)
    assert all(rate < 1e38 for rate in rates(side, result).values())
