"""Tests of errors against the reference that eager is closest to, with and without a cast."""

import pytest
import torch

from compilegate.observe.compare import decisions
from compilegate.observe.compare.errors import tensor_errors
from compilegate.observe.compare.nearest_reference import Sides
from compilegate.records.rounding import is_blind
from tests.unit.excess import exceeds


@pytest.mark.parametrize("apart", [0, 8])
def test_equal_numbers_in_half_precision_round_alike(apart):
    """As measured: a logsumexp of a few integers, in float16."""
    eager = 8 + torch.arange(99).half() / 32
    eager[:4] = 9.109375 + torch.arange(4) * apart / 128
    compiled = eager.clone()
    compiled[:4] -= 1 / 128
    (error,) = tensor_errors([Sides("x", eager, compiled, [eager.double()], half=True)])
    assert error.alike == (1 if apart else 4)
    assert (exceeds(error, 0.0) == "") is (apart == 0)


@pytest.mark.parametrize("numel", [6, 1000])
@pytest.mark.parametrize(("fault", "is_right"), [(0.0, True), (0.01, False)])
def test_a_reference_that_equals_eager_in_half_precision_shows_no_rounding(numel, fault, is_right):
    """As measured: ``2 * x.half().cos()``, whose first rounding Inductor leaves out."""
    for seed in range(20):
        x = torch.randn(numel, generator=torch.Generator().manual_seed(seed))
        eager = 2 * x.half().cos()
        compiled = (2 * x.cos() * (1 + fault)).half()
        references = [2 * x.double().cos(), eager.double()]
        (error,) = tensor_errors([Sides("x", eager, compiled, references, half=True)])
        assert error.eager_rms > 0
        assert (exceeds(error, 0.0) == "") is is_right


def test_a_reference_far_from_eager_does_not_hide_an_error():
    """The cast decides much here, so the reference that leaves it out explains nothing."""
    x = 1000 + torch.randn(1000, generator=torch.Generator().manual_seed(0))
    eager, wrong = x.half().sin(), (x.half().float() + 0.01).sin().half()
    references = [x.double().sin(), eager.double()]
    (error,) = tensor_errors([Sides("x", eager, wrong, references, half=True)])
    assert exceeds(error, 0.0)


@pytest.mark.parametrize(
    ("wrong_by", "went_with_eager", "is_right"),
    [(1e-7, True, True), (1e-3, True, False), (0.5, False, True)],
)
def test_a_reference_that_decides_otherwise_hides_no_error(wrong_by, went_with_eager, is_right):
    """Two boxes of a detector, in the order of scores that differ by rounding alone."""
    eager = torch.tensor([[4.0, 9.0, 80.0, 70.0], [120.0, 60.0, 200.0, 90.0]])
    compiled, reference = eager * (1 + wrong_by), eager.flip(0).double()
    (error,) = tensor_errors([Sides("output.boxes", eager, compiled, [reference])])
    assert error.has_reference is not went_with_eager
    assert is_blind(error) is not went_with_eager
    assert (exceeds(error, 0.0) == "") is is_right


@pytest.mark.parametrize(("compiled", "is_right"), [(1.5e-8, True), (1e-5, False)])
def test_a_reference_of_what_is_zero_but_for_rounding_stays(compiled, is_right):
    """The bias of a layer before a softmax: only rounding reaches its gradient."""
    references = [torch.tensor([1e-17], dtype=torch.float64)]
    eager, theirs = torch.tensor([-1.5e-8]), torch.tensor([compiled])
    (error,) = tensor_errors([Sides("gradient bias", eager, theirs, references)])
    assert error.has_reference
    assert (exceeds(error, 0.0) == "") is is_right


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("wrong_by", [2e-3, 2e-2])
def test_a_gradient_of_a_cast_to_half_precision_has_its_rounding(wrong_by, dtype):
    """See ``x.half().logsumexp(-1)``: eager and the rounded reference do the same."""
    truth = torch.linspace(0.3, 0.5, 24).double()
    rounded = (truth * (1 + 1e-3)).half()
    eager, compiled = rounded.to(dtype), (truth * (1 - wrong_by)).half().to(dtype)
    references = [truth, rounded.double() * (1 + 2e-6)]
    (error,) = tensor_errors([Sides("gradient x", eager, compiled, references)])
    assert error.eager_rms == pytest.approx(1e-3, rel=0.2)
    assert bool(exceeds(error, 0.0)) is (wrong_by > 1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("fault", "is_right"), [(0.0, True), (0.02, False)])
def test_a_gradient_with_a_part_in_half_precision_has_its_rounding(fault, is_right, dtype):
    """See ``x.sin() + x.bfloat16().cos()``: Inductor rounds some elements the other way."""
    generator = torch.Generator().manual_seed(0)
    for numel in (4, 24, 1000):
        part, rest = torch.rand(2, numel, generator=generator, dtype=torch.float64) + 0.5
        eager = part.bfloat16().to(dtype) + rest.to(dtype)
        compiled = (part * (1 - 1e-3 + fault)).bfloat16().to(dtype) + rest.to(dtype)
        references = [part + rest, part.bfloat16().double() + rest]
        (error,) = tensor_errors([Sides("gradient x", eager, compiled, references)])
        assert (exceeds(error, 0.0) == "") is is_right


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rest", [0.0, 2.0**-14])
@pytest.mark.parametrize(("fault", "is_right"), [(0.0, True), (0.02, False)])
def test_a_sum_in_half_precision_may_be_left_unrounded(rest, fault, is_right, dtype):
    """Eager rounds the sum of two gradients of ``x.bfloat16()``; Inductor leaves that out.

    With the rest, some elements are no numbers in half precision, and all are exact in single.
    """
    generator = torch.Generator().manual_seed(0)
    for numel in (4, 24, 1000):
        rests = torch.where(torch.arange(numel) % 2 == 0, rest, 0.0)
        one, other = (torch.rand(2, numel, generator=generator) + 0.5).bfloat16()
        eager = (one + other).to(dtype) + rests
        compiled = (one.to(dtype) + other.to(dtype)) * (1 + fault) + rests
        references = [one.double() + other.double() + rests, (one + other).double() + rests]
        sides = Sides("gradient x", eager, compiled, references)
        (error,) = tensor_errors([sides])
        assert (exceeds(error, 0.0) == "") is is_right
        assert decisions.of_floats(sides, error) is None
