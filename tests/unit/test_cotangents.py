"""Tests of cotangents, with which backward starts."""

import pytest
import torch

from compilegate.observe.model.cotangents import Cotangents, scattered
from compilegate.suites import test_gradients
from tests.unit.observed import Linear
from tests.unit.probed import probed, verdict_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64])
def test_cotangents_have_unit_norm_in_the_dtype_of_the_output(dtype):
    cotangent = Cotangents(0).of("output", torch.zeros(30, 7, dtype=dtype))
    assert cotangent.dtype == dtype
    assert float(cotangent.abs().double().square().sum().sqrt()) == pytest.approx(1.0, rel=1e-2)


def test_cotangents_of_float16_outputs_stay_in_float32():
    assert Cotangents(0).of("output", torch.zeros(5, dtype=torch.float16)).dtype == torch.float32


def test_cotangents_have_the_strides_of_the_output():
    cotangents = Cotangents(0)
    output = torch.zeros(2, 3, 4, 5)
    last = output.to(memory_format=torch.channels_last)
    assert cotangents.of("output", output).stride() == output.stride()
    assert cotangents.of("output", last).stride() == last.stride()
    assert torch.equal(cotangents.of("output", last), Cotangents(0).of("output", output))


@pytest.mark.parametrize("shape", [(), (5,), (4, 6), (2, 3, 4, 5), (0, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_scattered_cotangents_hold_the_same_numbers_in_other_memory(shape, dtype):
    cotangent = Cotangents(0).of("output", torch.zeros(shape, dtype=dtype))
    elsewhere = scattered(cotangent)
    assert torch.equal(elsewhere, cotangent)
    assert [*elsewhere.stride()] == sorted(elsewhere.stride())
    assert elsewhere.numel() < 2 or not elsewhere.is_contiguous()


def test_the_memory_between_scattered_cotangents_is_nan():
    assert scattered(torch.ones(4, 6)).as_strided((6, 4), (4, 1)).isnan().any()


@pytest.mark.parametrize(
    ("seeds", "paths", "alike"),
    [
        ((0, 0), ("output", "output"), True),
        ((0, 1), ("output", "output"), False),
        ((0, 0), ("output[0]", "output[1]"), False),
    ],
)
def test_each_seed_and_output_has_its_own_cotangent(seeds, paths, alike):
    output = torch.zeros(5)
    one, other = (
        Cotangents(seed).of(path, output) for seed, path in zip(seeds, paths, strict=True)
    )
    assert torch.equal(one, other) == alike


def test_another_size_has_another_cotangent_and_the_first_size_the_same_again():
    cotangents, small, large = Cotangents(0), torch.zeros(5), torch.zeros(7)
    first = cotangents.of("output", small)
    assert cotangents.of("output", small) is first
    assert cotangents.of("output", large).shape == large.shape
    assert torch.equal(cotangents.of("output", small), first)


class Boxes(torch.Tensor):
    """Has methods of its own, and overrides nothing."""


@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "passed"), (1.001, "failed")])
def test_the_cotangent_of_a_class_without_operators_is_a_plain_tensor(factor, outcome):
    """As in autograd: AOTAutograd refuses another class than it has guessed."""
    assert type(Cotangents(0).of("output", torch.zeros(3).as_subclass(Boxes))) is torch.Tensor

    def boxes(x, y):
        off = factor if torch.compiler.is_compiling() else 1.0
        return (y * off).as_subclass(Boxes), x.sin()

    seen = probed(lambda: Linear(boxes), "train", "aot_eager", ("capture", "vary", "reuse"))
    found = verdict_of(seen, test_gradients)
    assert found.outcome == outcome, found.details
