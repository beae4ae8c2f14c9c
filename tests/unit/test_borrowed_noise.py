"""A call without a reference and without samples has the noise of the other calls."""

import pytest

from compilegate.judging.tensors import examine
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
