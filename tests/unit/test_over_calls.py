"""The error of one tensor in half precision over all calls of a case."""

import pytest

from compilegate.judging.over_calls import FEWEST_CALLS, over_calls
from compilegate.judging.tensors import examine
from tests.unit.making import make_call, make_checked, make_error, make_observation

HALF_ID = "resnet18-cpu-train-bf16-default-static"
SINGLE_ID = "resnet18-cpu-train-f32-default-static"
EAGER = 0.004
STEADY = (1.0, 1.01, 0.99, 1.005, 0.995)


def gradient(name, ratio, numel=4096):
    return make_error(
        f"gradient {name}",
        numel=numel,
        eager_own=EAGER,
        eager_rms=EAGER,
        eager_max=4 * EAGER,
        compiled_rms=ratio * EAGER,
        compiled_max=4 * EAGER,
    )


def observed(ratios, case=HALF_ID, numel=4096):
    """Return an observation in which one gradient of three errs more in each call."""
    calls = [
        make_call(
            gradients=make_checked(
                gradient("first", one),
                gradient("second", ratio, numel),
                gradient("third", 1 / one),
            )
        )
        for ratio, one in zip(ratios, STEADY, strict=False)
    ]
    return make_observation(case=case, calls=tuple(calls))


@pytest.mark.parametrize(
    ("ratios", "is_right"),
    [
        pytest.param([1.4, 1.42, 1.39, 1.41, 1.38], False, id="more in every call"),
        pytest.param([1.15, 1.16, 1.14, 1.15, 1.17], True, id="hardly more"),
        pytest.param([0.6, 0.61, 0.59, 0.6, 0.62], True, id="less"),
        pytest.param([1.7, 0.9, 1.6, 0.8, 1.5], True, id="more in some calls"),
        pytest.param([1.4, 1.42, 1.39], True, id="more in few calls"),
        pytest.param([1.4, 1.4, 1.4, 1.4, 1.4], True, id="more, with one input"),
    ],
)
def test_a_tensor_that_errs_more_in_all_calls_fails(ratios, is_right):
    complaints = examine(observed(ratios), "gradients").complaints
    assert (complaints == ()) is is_right
    if not is_right:
        assert complaints[0].startswith("gradient second (float32): its error over 5 calls is 1.4")


def test_few_elements_err_by_chance():
    ratios = [1.4, 1.42, 1.39, 1.41, 1.38]
    assert examine(observed(ratios, numel=16), "gradients").complaints == ()


def test_errors_in_single_precision_are_rounded_otherwise():
    assert not [*over_calls(observed([1.4, 1.42, 1.39, 1.41], SINGLE_ID), "gradients")]


def test_fewer_calls_than_four_show_nothing():
    assert not [*over_calls(observed([1.4] * (FEWEST_CALLS - 1)), "gradients")]
