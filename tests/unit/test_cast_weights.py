"""Weights in other number formats: eager, and the reference that has the rounded weights."""

import importlib.util

import pytest
import torch
from torch import nn

from compilegate.observe.compare.eager_noise import nudges_of
from compilegate.observe.device.unsupported import UnsupportedError
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.seeding import factors
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from tests.unit.subjects import Net, call, plan, subject

INFER = Case.parse("m-cpu-infer-f32-default-static-bf16_weights")
TRAIN = Case.parse("m-cpu-train-f32-default-static-bf16_weights")
INT8 = Case.parse("m-cpu-infer-f32-default-static-int8_weights")
HAS_TORCHAO = importlib.util.find_spec("torchao") is not None


def dtypes(made):
    return {tensor.dtype for tensor in made.parameters().values()}


def assert_equal_weights(reference, eager):
    for name, exact in reference.parameters().items():
        assert torch.equal(exact, eager.parameters()[name].double()), name


def test_the_module_and_its_floating_inputs_are_cast():
    eager = subject(case=INFER)
    assert dtypes(eager) == {torch.bfloat16}
    assert eager.prepare(plan()).args[0].dtype == torch.bfloat16
    assert call(eager).output["output"].dtype == torch.bfloat16


def test_the_reference_has_the_rounded_weights_and_inputs():
    eager, reference = subject(case=INFER), subject(case=INFER, lifting=Lifting())
    assert dtypes(reference) == {torch.float64}
    assert_equal_weights(reference, eager)
    ours, theirs = (side.prepare(plan()).args[0] for side in (eager, reference))
    assert torch.equal(ours.double(), theirs)
    exact = subject(case=Case.parse("m-cpu-infer-f32-default-static"), lifting=Lifting())
    assert not torch.equal(
        reference.parameters()["first.weight"], exact.parameters()["first.weight"]
    )


def test_the_reference_stays_rounded_when_weights_change():
    eager, reference = subject(case=INFER), subject(case=INFER, lifting=Lifting())
    moved = PlannedCall(1, {"batch": 6}, moved=True)
    for side in (eager, reference):
        side.prepare(moved)
    assert_equal_weights(reference, eager)
    for side in (trained := [subject(case=TRAIN), subject(case=TRAIN, lifting=Lifting())]):
        for parameter in side.parameters().values():
            parameter.grad = torch.full_like(parameter, 0.5)
        side.update(dict.fromkeys(side.parameters(), 2.0**-7))
    assert_equal_weights(trained[1], trained[0])


class Limits(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.scale * torch.finfo(x.dtype).eps


@pytest.mark.parametrize(
    ("weights", "dtype"), [("bf16_weights", torch.bfloat16), ("f16_weights", torch.float16)]
)
def test_finfo_returns_the_limits_of_the_cast_dtype(weights, dtype):
    case = Case("m", "cpu", "infer", "f32", "default", "static", weights=weights)

    def build():
        return Example(Limits(), inputs=(torch.ones(2),))

    reference = subject(build, case, lifting=Lifting())
    assert float(call(reference).output["output"]) == torch.finfo(dtype).eps


def test_a_nudge_moves_weights_in_half_precision():
    """A factor of one rounding error would round to one, and so would its product."""
    tensor = torch.rand(1000, generator=torch.Generator().manual_seed(0)).bfloat16() + 1
    smallest = min(nudges_of(INFER)) * 2.0**-9
    nudged = tensor.clone().mul_(factors(tensor, smallest, torch.Generator().manual_seed(0)))
    assert 0.1 < float((nudged != tensor).double().mean()) < 0.9


@pytest.mark.skipif(HAS_TORCHAO, reason="torchao is installed")
def test_without_torchao_int8_weights_are_unsupported():
    with pytest.raises(UnsupportedError, match="torchao is not installed"):
        subject(case=INT8)


@pytest.mark.skipif(not HAS_TORCHAO, reason="torchao is not installed")
def test_the_reference_of_int8_weights_has_the_numbers_that_they_stand_for():
    eager, reference = subject(case=INT8), subject(case=INT8, lifting=Lifting())
    ours, theirs = (call(side).output["output"].double() for side in (eager, reference))
    assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    quantised = eager.parameters()["first.weight"]
    assert torch.equal(quantised.dequantize().double(), reference.parameters()["first.weight"])


def test_a_module_that_is_not_cast_keeps_its_dtypes():
    assert dtypes(subject(lambda: Example(Net().half(), inputs=(torch.ones(2, 8),)))) == {
        torch.float16
    }
