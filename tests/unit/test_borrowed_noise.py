"""A call without a reference and without samples has the noise of the other calls."""

import pytest

from compilegate.judging.tensors import examine, examine_groups
from tests.unit.making import make_call, make_checked, make_error, make_observation

CASE = "wav2vec2-cuda-train-bf16-reduce_overhead-auto"
UNKNOWN = {"eager_rms": 0.0, "eager_max": 0.0, "has_reference": False}
SAMPLED = {"eager_rms": 9e-3, "eager_max": 0.05, "samples": 4, "has_reference": False}


def complaints(*errors):
    calls = tuple(make_call(outputs=make_checked(error)) for error in errors)
    seen = make_observation(case=CASE, reference="none: it draws in a kernel", calls=calls)
    return len(examine(seen, "outputs").complaints)


def error(rms, noise):
    return make_error(compiled_rms=rms, compiled_max=4 * rms, **noise)


@pytest.mark.parametrize(("rms", "expected"), [(5e-3, 0), (0.05, 1)])
def test_a_call_that_was_not_sampled_is_judged_by_the_noise_of_the_others(rms, expected):
    assert complaints(error(5e-3, SAMPLED), error(rms, UNKNOWN)) == expected


def test_without_any_samples_only_rounding_is_allowed():
    assert complaints(error(5e-3, UNKNOWN), error(5e-3, UNKNOWN)) == 2


def test_a_call_with_a_reference_keeps_its_own_noise():
    exact = UNKNOWN | {"has_reference": True}
    assert complaints(error(5e-3, SAMPLED), error(5e-3, exact)) == 1


# Eager's bias, which all its runs have.

#: A running variance of MaxViT in f16 on an H200: eager's error per call, and compiled code's. From
#: the fourth call on, there was no memory for the reference.
BIAS = (3.4e-6, 7.0e-6, 1.03e-5)
OFF = (1.36e-5, 1.7e-5, 2.04e-5, 2.39e-5)


def figures(side, bias):
    """Return the figures of one side that is off by a bias, as they were seen."""
    off = abs(bias)
    return {
        f"{side}_rms": 1.1 * off,
        f"{side}_quantile": 1.8 * off,
        f"{side}_max": 2 * off,
        f"{side}_projection": bias,
    }


def complaints_without_reference(off, *, bias=BIAS, extreme=False):
    """Return how many calls without a reference are wrong, after others with one."""
    shape = {"numel": 256, "scale": 0.24}
    with_truth = [
        make_error(
            eager_own=1.15 * one,
            compiled_rms=4e-6,
            compiled_max=1.5e-5,
            **figures("eager", one),
            **shape,
        )
        for one in bias
    ]
    sampled = [
        make_error(
            **figures("eager", 2e-6) | {"eager_projection": -3e-7},
            **figures("compiled", -one),
            **shape,
            samples=8,
            jumps=True,
            has_reference=False,
        )
        for one in off
    ]
    groups = [(f"call {i}", make_checked(one)) for i, one in enumerate((*with_truth, *sampled))]
    return len(
        examine_groups(
            make_observation(case="maxvit_t-cuda-train-f16-default-static"),
            groups,
            range(len(with_truth)) if extreme else (),
        ).excesses
    )


def test_what_all_eager_runs_err_is_known_from_calls_with_a_reference():
    assert complaints_without_reference(OFF) == 0
    assert complaints_without_reference(OFF, bias=()) == 4
    assert complaints_without_reference([40 * one for one in OFF]) == 4


def test_calls_with_extreme_inputs_lend_no_bias():
    assert complaints_without_reference(OFF, extreme=True) == 4


# Few elements, near the truth by chance.

#: Eager's errors of a loss in bf16, call by call, and those of compiled code: a ViT on a GPU.
OURS = (9.9e-6, 2.4e-7, 3.7e-7, 7.0e-6, 1.1e-5, 1.6e-5, 1.4e-5)
THEIRS = (1.7e-6, 3.5e-8, 2.9e-6, 5.7e-6, 6.4e-6, 2.4e-6, 2.6e-6)


def loss(ours, theirs, **fields):
    figures = {"eager_own": ours, "eager_rms": ours, "eager_max": ours}
    return make_error(
        name="output.loss",
        **(figures | {"numel": 1, "compiled_rms": theirs, "compiled_max": theirs} | fields),
    )


def complaints_of_losses(ours, theirs, case=CASE, **fields):
    errors = (loss(*pair, **fields) for pair in zip(ours, theirs, strict=True))
    calls = tuple(make_call(outputs=make_checked(error)) for error in errors)
    return len(examine(make_observation(case=case, calls=calls), "outputs").complaints)


def test_few_elements_in_half_precision_have_the_noise_of_all_calls():
    assert complaints_of_losses(OURS, THEIRS) == 0
    assert complaints_of_losses(OURS[1:3], THEIRS[1:3]) == 1


@pytest.mark.parametrize("call", [1, 5])
def test_few_elements_that_are_wrong_in_one_call_fail(call):
    wrong = [1e-4 if index == call else error for index, error in enumerate(THEIRS)]
    assert complaints_of_losses(OURS, wrong) == 1


def test_many_elements_and_single_precision_keep_the_noise_of_each_call():
    assert complaints_of_losses(OURS, THEIRS, numel=1000) == 1
    assert complaints_of_losses(OURS, THEIRS, "resnet18-cpu-infer-f32-default-static") == 1


def test_a_call_that_jumped_is_not_the_noise_of_others():
    assert complaints_of_losses((0.2, *OURS), (0.2, *THEIRS[:-1], 1e-3)) == 1
