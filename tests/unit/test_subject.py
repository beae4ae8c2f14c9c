"""Tests of subjects: builds are repeatable, and gradients have the right precision."""

import pytest
import torch
from torch import nn

from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.subjects import INFER, TRAIN, TRAIN_BF16, call, example_of, plan, rows, subject

# Builds.


def test_two_builds_have_the_same_weights_and_inputs():
    one, other = subject(), subject()
    torch.rand(100)  # whatever happens in between
    for mine, theirs in zip(one.parameters().values(), other.parameters().values(), strict=True):
        assert torch.equal(mine, theirs)
        assert mine is not theirs
    for index in (0, 1, 2):
        assert torch.equal(one.prepare(plan(index)).args[0], other.prepare(plan(index)).args[0])


def test_inputs_do_not_depend_on_the_order_of_calls():
    made = subject()
    third, first = made.prepare(plan(2)), made.prepare(plan(0))
    assert torch.equal(first.args[0], subject().prepare(plan(0)).args[0])
    assert torch.equal(third.args[0], subject().prepare(plan(2)).args[0])


def test_inputs_of_two_calls_differ_in_value():
    made = subject()
    assert not torch.equal(made.prepare(plan(0)).args[0], made.prepare(plan(1)).args[0])


def test_another_seed_returns_other_weights_and_inputs():
    one, other = subject(seed=0), subject(seed=1)
    assert not torch.equal(one.module.first.weight, other.module.first.weight)
    assert not torch.equal(one.prepare(plan()).args[0], other.prepare(plan()).args[0])
    output = torch.ones(5, requires_grad=True)
    assert one.functional(output) != other.functional(output)


def test_the_reference_has_the_same_weights_and_inputs_in_float64():
    eager, reference = subject(), subject(lifting=Lifting())
    for name, weight in reference.parameters().items():
        assert weight.dtype == torch.float64
        assert torch.equal(weight, eager.parameters()[name].double())
    assert torch.equal(reference.prepare(plan()).args[0], eager.prepare(plan()).args[0].double())


def test_two_subjects_draw_the_same_random_numbers_in_a_call():
    def noisy(x):
        return x + torch.rand(3)

    made = [subject(example_of(noisy, rows()), INFER) for _ in range(2)]
    first = [call(side, plan(0)).output["output"] for side in made]
    torch.rand(100)
    second = [call(side, plan(1)).output["output"] for side in made]
    assert torch.equal(*first)
    assert torch.equal(*second)


def test_the_phase_determines_training_mode_and_gradients():
    assert subject(case=TRAIN).module.training
    assert not subject(case=INFER).module.training
    result = call(subject(case=INFER))
    assert result.gradients == {}
    assert result.layout["output"]["requires_grad"] == "False"
    assert call(subject(case=TRAIN)).layout["output"]["requires_grad"] == "True"


def test_fingerprints_depend_on_shapes_and_names_but_not_on_values():
    def wider():
        return Example(nn.Linear(8, 5))

    def named():
        return Example(nn.Sequential(nn.Linear(8, 4)))

    def linear():
        return Example(nn.Linear(8, 4))

    prints = {subject(build).fingerprint() for build in (linear, wider, named)}
    assert len(prints) == 3
    assert subject(linear, seed=0).fingerprint() == subject(linear, seed=5).fingerprint()


def test_a_function_has_no_state():
    made = subject(example_of(torch.sin, rows()))
    assert (made.parameters(), made.buffers()) == ({}, {})
    assert made.fingerprint()


# Precision.


def test_autocast_is_active_in_forward_only():
    seen = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(("forward", torch.is_autocast_enabled("cpu")))
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(("backward", torch.is_autocast_enabled("cpu")))
            return gradient

    def build():
        return Example(lambda x: Watched.apply(x) @ x.t(), inputs=(torch.randn(3, 3),))

    assert call(subject(build, TRAIN_BF16)).layout["output"]["dtype"] == "bfloat16"
    assert seen == [("forward", True), ("backward", False)]


def test_the_reference_of_a_bf16_case_has_no_autocast():
    result = call(subject(case=TRAIN_BF16, lifting=Lifting()))
    assert result.layout["output"]["dtype"] == "float64"
    assert {g.dtype for g in result.gradients.values()} == {torch.float64}


# Gradients.


def test_gradients_come_from_cotangents_that_do_not_depend_on_the_dtype():
    eager, reference = call(subject()), call(subject(lifting=Lifting()))
    assert eager.gradients.keys() == reference.gradients.keys()
    for name, gradient in eager.gradients.items():
        if name == "first.bias":  # BatchNorm takes it out again: it is zero
            continue
        truth = reference.gradients[name]
        assert float((gradient.double() - truth).norm() / truth.norm()) < 1e-4, name


def test_every_differentiable_output_contributes_to_gradients():
    def both(x, y):
        return {"a": x * 2, "n": x.argmax(), "b": [y * 3]}

    result = call(subject(example_of(both, rows(), rows())))
    assert {name: bool(g.abs().sum() > 0) for name, g in result.gradients.items()} == {
        "input[0]": True,
        "input[1]": True,
    }


def test_gradients_start_at_zero_in_each_call():
    made = subject()
    arguments = made.prepare(plan())
    first = made.call(arguments, 0)
    again = made.call(arguments, 0)
    assert torch.equal(first.gradients["second.weight"], again.gradients["second.weight"])
    assert torch.equal(first.gradients["input[0]"], again.gradients["input[0]"])


def test_the_gradient_of_an_unused_parameter_is_none():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.used(x)

    result = call(subject(lambda: Example(Idle(), inputs=(torch.randn(4, 3),))))
    assert result.gradients["idle.weight"] is None
    assert result.gradients["used.weight"] is not None


def test_only_floating_inputs_are_differentiated():
    build = example_of(lambda x, index, mask: x[index] * mask, rows(), lambda: torch.arange(3),
                       lambda: torch.ones(3, 1, dtype=torch.bool))  # fmt: skip
    assert set(call(subject(build)).gradients) == {"input[0]"}


def test_inputs_without_input_gradients_have_no_gradient():
    build = example_of(lambda x: x * 2, rows())
    assert call(subject(build, input_gradients=False)).gradients == {}
    (x,) = subject(build, INFER).prepare(plan()).args
    assert not x.requires_grad


def test_an_output_without_gradient_passes():
    result = call(subject(example_of(lambda n: n + 1, lambda: torch.arange(3))))
    assert result.gradients == {}


def test_f16_gradients_are_recorded_unscaled():
    half = Case("m", "cpu", "train", "f16", "default", "static")
    scaled, plain = call(subject(case=half)), call(subject(lifting=Lifting()))
    for name in ("first.weight", "second.weight"):
        ours, truth = scaled.gradients[name].double(), plain.gradients[name]
        assert float((ours - truth).norm() / truth.norm()) < 0.05, name


@pytest.mark.parametrize("phase", ["infer", "train"])
def test_a_lazy_module_is_called_once_when_it_is_built(phase):
    def build():
        return Example(
            nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d()),
            inputs=lambda batch: (torch.randn(batch, 8),),
        )

    model = Model("m", "m", vary={"batch": (6, 3)}, build=build)
    case = Case.parse(f"m-cpu-{phase}-f32-default-static")
    sides = [Subject(model, case, 0) for _ in range(2)]
    planned = PlannedCall(0, {"batch": 6})
    results = [side.call(side.prepare(planned), 0) for side in sides]
    assert all(result.error is None for result in results)
    assert torch.equal(results[0].output["output"], results[1].output["output"])
    assert sides[0].parameters()["0.weight"].shape == (4, 8)
    assert sides[0].buffers()["1.num_batches_tracked"] == (phase == "train")
