"""Nudges move numbers by whole units in the last place, and equal numbers alike."""

import math

import pytest
import torch

from compilegate.observe.model.nudging import nudge

F32, BF16 = 2.0**-23, 2.0**-7


def nudged(values, amount=F32, seed=0, dtype=torch.float32):
    tensor = torch.tensor(values, dtype=dtype) if isinstance(values, list) else values.clone()
    nudge([tensor], amount, seed)
    return tensor


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_every_number_moves_by_one_unit_in_its_last_place(dtype):
    before = torch.linspace(0.5, 8.0, 200).to(dtype)
    after = nudged(before, amount=torch.finfo(dtype).eps)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[before.element_size()]
    steps = after.view(bits).int() - before.view(bits).int()
    assert set(steps.tolist()) == {-1, 1}


def test_a_number_of_eight_bits_stays():
    before = torch.linspace(0.5, 8.0, 200).to(torch.float8_e5m2)
    assert torch.equal(nudged(before, amount=1.0).float(), before.float())


def test_a_larger_nudge_moves_by_at_most_its_size():
    before = torch.linspace(0.5, 8.0, 10_000)
    off = ((nudged(before, 64 * F32) - before) / before).abs()
    assert 0 < float(off.min()) < 2 * F32
    assert 48 * F32 < float(off.max()) <= 64 * F32


def test_equal_numbers_stay_equal_and_opposite_ones_opposite():
    before = torch.tensor([0.1, 0.7, -0.7, 0.1, 0.7, 0.3])
    after = nudged(before, 64 * F32)
    assert after[0] == after[3]
    assert after[1] == after[4] == -after[2]
    apart = [before.clone(), before[:1].clone().expand(3, 4)]
    nudge(apart, 64 * F32, 0)
    assert bool((apart[1] == after[0]).all())


def test_nudges_of_two_seeds_are_independent():
    before = torch.rand(10_000) + 1
    one, other = (nudged(before, 64 * F32, seed) - before for seed in (1, 2))
    together = float((one * other).mean() / (one.norm() * other.norm() / len(before)))
    assert abs(together) < 0.05
    assert abs(float(one.mean())) < 0.05 * float(one.abs().max())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("units", [1, 64])
def test_what_may_be_a_probability_stays_one_and_moves(dtype, units):
    eps = torch.finfo(dtype).eps
    before = (1 - torch.arange(100) * eps / 2).to(dtype)
    after = nudged(before, amount=units * eps)
    assert bool((after <= 1).all())
    assert bool((after != before).all())
    assert torch.equal(nudged(-before, amount=units * eps), -after)
    mixed = nudged(torch.cat([before, torch.tensor([2.0], dtype=dtype)]), amount=units * eps)
    assert bool((mixed[:-1] > before).any()), "these are no probabilities"


def test_zeros_and_values_that_are_not_finite_stay():
    limits = torch.finfo(torch.float32)
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, limits.max, -limits.max]
    after = nudged(special, 64 * F32)
    assert torch.equal(after.view(torch.int32), torch.tensor(special).view(torch.int32))


def test_numbers_that_are_too_coarse_stay_where_others_are_not():
    coarse, fine = torch.full((3,), 0.3, dtype=torch.bfloat16), torch.full((3,), 0.3)
    before = coarse.clone()
    assert nudge([coarse, fine, torch.arange(3)], F32, 0) == F32
    assert torch.equal(coarse, before)
    assert not torch.equal(fine, torch.full((3,), 0.3))
    assert nudge([coarse], F32, 0) == BF16
    assert not torch.equal(coarse, before)


def test_memory_that_two_tensors_share_moves_once():
    shared = torch.rand(100) + 0.5
    before = shared.clone()
    nudge([shared, shared], F32, 0)
    assert torch.equal(shared, nudged(before))


def test_nothing_moves_where_nothing_is_floating():
    assert nudge([torch.arange(3), torch.empty(0)], F32, 0) == 0.0
