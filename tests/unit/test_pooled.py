"""The errors of all calls and tensors in half precision together."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from compilegate.calibration.tolerance_use import shares
from compilegate.judging.pooled import AS_A_WHOLE, UNSAMPLED, as_a_whole
from compilegate.judging.tensors import examine
from compilegate.observe.compare.errors import tensor_errors
from compilegate.observe.compare.nearest_reference import Nudge, Sides
from compilegate.observe.compare.pooled_errors import pooled_errors
from compilegate.observe.compare.values import DOUBT_AS_A_WHOLE
from compilegate.records.call import Pooled
from tests.unit.making import make_call, make_checked, make_error, make_observation
from tests.unit.observed import verdict

HALF_ID = "resnet18-cpu-infer-bf16-default-static"
NARROW, WIDE = (1.5, 1.505, 1.495, 1.5), (1.2, 1.8, 1.4, 1.6)


def observed(*ratios, nudged=NARROW):
    """Return an observation whose calls have these pooled ratios."""
    checked = [
        Pooled(ratio=ratio, tensors=3, elements=1000, nudged=nudged if ratio > 1 else ())
        for ratio in ratios
    ]
    calls = [make_call(outputs=with_pooled(pooled)) for pooled in checked]
    return make_observation(case=HALF_ID, calls=tuple(calls))


def with_pooled(pooled):
    errors = make_checked(make_error("output", dtype="bfloat16"))
    return type(errors)(tensors=1, errors=errors.errors, pooled=pooled)


@pytest.mark.parametrize(
    ("ratios", "nudged", "is_right"),
    [
        pytest.param([1.1, 1.12, 1.09, 1.11], NARROW, False, id="more in every call"),
        pytest.param([1.05, 1.06, 1.04, 1.05], NARROW, True, id="hardly more"),
        pytest.param([0.6, 0.58, 0.61], NARROW, True, id="less"),
        pytest.param([1.3, 1.32, 1.29, 1.31], WIDE, True, id="more, as chance allows"),
        pytest.param([2.6, 2.7, 2.65, 2.6], WIDE, False, id="more than chance allows"),
        pytest.param([1.3, 0.8, 1.4, 0.9], NARROW, True, id="more in some calls"),
        pytest.param([1.2, 1.21, 1.19, 1.2], (), True, id="more, without samples"),
        pytest.param([1.4, 1.41, 1.39, 1.405], (), False, id="far more, without samples"),
        pytest.param([1.4, 1.41, 1.39], (), True, id="far more in few calls, without samples"),
    ],
)
def test_the_bound_allows_what_may_be_chance(ratios, nudged, is_right):
    complaints = examine(observed(*ratios, nudged=nudged), "outputs").complaints
    assert (complaints == ()) is is_right
    if not is_right:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        text = f"the error of all {3 * len(ratios)} tensors over {len(ratios)} calls is {mean:.3g}"
        assert complaints[0].startswith(text)


def test_the_bound_tightens_with_the_number_of_calls():
    allowed = [
        as_a_whole(observed(*(1.3 + 0.01 * i for i in range(n)), nudged=WIDE), "outputs").allowed
        for n in (1, 4, 8)
    ]
    assert allowed == sorted(allowed, reverse=True)
    assert allowed[-1] < 1.6
    assert allowed[0] > 4


def test_the_same_input_again_is_no_further_evidence():
    once = as_a_whole(observed(1.3, 1.31, nudged=WIDE), "outputs")
    again = as_a_whole(observed(1.3, 1.31, 1.3, 1.31, nudged=()), "outputs")
    assert once.allowed > 2
    assert again.allowed == math.inf


def test_runs_without_pooled_errors_are_judged_without_them():
    assert as_a_whole(make_observation(case=HALF_ID), "outputs") is None


def test_a_case_in_tf32_is_judged_without_them():
    """Kernels round to TF32 in different ways."""
    seen = observed(1.4, 1.41, 1.39, 1.405)
    changed = dataclasses.replace(seen, case="resnet18-cuda-infer-f32-default-static", tf32=True)
    assert as_a_whole(seen, "outputs") is not None
    assert as_a_whole(changed, "outputs") is None


def test_eager_is_sampled_before_the_pooled_error_exceeds_its_bound():
    assert 1 < DOUBT_AS_A_WHOLE < AS_A_WHOLE < UNSAMPLED


# The facts.

TRUTH = torch.randn(64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LOW = 2.0**-9


def off(by, seed, size=64):
    noise = torch.randn(64, 64, generator=torch.Generator().manual_seed(seed))
    return (TRUTH * (1 + by * noise))[:size].float()


def sides(name, factor, by=LOW, size=64, samples=()):
    drawn = [(off(by, seed, size), Nudge(1.0, 1.0)) for seed in samples]
    ours, theirs = off(by, 1, size), off(factor * by, 2, size)
    return Sides(name, ours, theirs, [TRUTH[:size]], drawn, half=True)


def pooled(*tensors):
    return pooled_errors(tensors, tensor_errors(tensors))


def test_tensors_are_pooled_by_their_ratios():
    found = pooled(sides("a", 1.2), sides("b", 1.2, by=LOW / 3))
    assert found.ratio == pytest.approx(1.2, rel=0.03)
    assert (found.tensors, found.elements, found.nudged) == (2, 2 * 64 * 64, ())


def test_a_small_tensor_counts_for_less():
    found = pooled(sides("large", 1.0), sides("small", 3.0, size=1))
    assert 1.0 < found.ratio < math.sqrt(3)


@pytest.mark.parametrize("by", [1e-7, 0.5], ids=["single precision", "blind"])
def test_only_tensors_that_eager_computes_in_half_precision_count(by):
    assert pooled(sides("fine", 3.0, by=by)) is None


def test_nudged_runs_are_pooled_next_to_eager():
    found = pooled(sides("a", 1.0, samples=(3, 4, 5)), sides("b", 1.0, samples=(6, 7, 8)))
    assert len(found.nudged) == 3
    assert all(ratio == pytest.approx(1.0, abs=0.05) for ratio in found.nudged)


# Compiled code.


class InFloat32(nn.Module):
    """Computes tanh outside of autocast; compiled code may compute it in bfloat16."""

    def __init__(self, is_right):
        super().__init__()
        self.linear, self.is_right = nn.Linear(64, 256), is_right

    def forward(self, x):
        y = self.linear(x)
        if self.is_right or not torch.compiler.is_compiling():
            return y.float().tanh()
        return y.bfloat16().tanh().float()


@pytest.mark.parametrize("is_right", [True, False])
def test_an_operator_that_leaves_autocast_too_late_is_found(is_right):
    found = verdict(
        lambda: InFloat32(is_right),
        precision="bf16",
        batch=(64, 40, 72),
        inputs=lambda batch: (torch.randn(batch, 64),),
    )
    assert found.outcome == ("passed" if is_right else "failed")
    assert is_right or "calls is 1.1" in found.summary


def test_the_table_of_used_bounds_has_the_pooled_error():
    error = make_error(dtype="bfloat16", eager_own=1e-3, eager_rms=4e-3, compiled_rms=1.2e-3)
    sampled_before = make_error(dtype="bfloat16", samples=4, eager_rms=4e-3, compiled_rms=9e-3)
    calls = (make_call(outputs=make_checked(error, sampled_before)),)
    used = shares(make_observation(case=HALF_ID, calls=calls))
    (share,) = (share for _, what, share, _ in used if what.startswith("all together"))
    assert share == pytest.approx(1.2 / AS_A_WHOLE)
