"""A wrong scale that one tensor in half precision has in all calls of a case."""

import pytest

from compilegate.judging.over_calls import FEWEST_CALLS
from compilegate.judging.scale_over_calls import scales_over_calls
from compilegate.judging.tensors import examine
from tests.unit.making import make_call, make_checked, make_error, make_observation

HALF_ID = "resnet18-cpu-train-bf16-default-static"
SINGLE_ID = "resnet18-cpu-train-f32-default-static"
#: What rounding errors look like, as a scale.
ROUNDING = tuple((-1) ** call * (0.0014 + 0.00002 * call) for call in range(16))


def observed(factor, eager=0.0, case=HALF_ID, calls=16, repeated=False):
    """Return an observation in which the scale of one gradient of two is wrong in each call."""
    drawn = [ROUNDING[0]] * calls if repeated else ROUNDING[:calls]
    errors = {"eager_own": 0.005, "eager_rms": 0.005, "eager_max": 0.02}
    errors |= {"compiled_rms": 0.005, "compiled_max": 0.02}
    made = [
        make_checked(
            make_error("gradient right", compiled_projection=one, eager_projection=-one, **errors),
            make_error(
                "gradient wrong",
                compiled_projection=one + factor,
                eager_projection=eager - one,
                **errors,
            ),
        )
        for one in drawn
    ]
    return make_observation(case=case, calls=tuple(make_call(gradients=one) for one in made))


@pytest.mark.parametrize(
    ("changed", "is_right"),
    [
        pytest.param({"factor": 0.0045}, False, id="half a per cent too large"),
        pytest.param({"factor": -0.0045}, False, id="half a per cent too small"),
        pytest.param({"factor": 0.001}, True, id="within rounding"),
        pytest.param({"factor": 0.0045, "eager": 0.005}, True, id="in eager, too"),
        pytest.param({"factor": 0.0045, "calls": FEWEST_CALLS - 1}, True, id="in few calls"),
        pytest.param({"factor": 0.0045, "repeated": True}, True, id="with one input"),
        pytest.param({"factor": 0.0045, "case": SINGLE_ID}, True, id="in single precision"),
    ],
)
def test_a_scale_that_is_wrong_in_all_calls_fails(changed, is_right):
    complaints = examine(observed(**changed), "gradients").complaints
    assert (complaints == ()) is is_right
    if not is_right:
        direction = "large" if changed["factor"] > 0 else "small"
        start = f"gradient wrong (float32): its scale over 16 calls is too {direction} by 0.004"
        assert [line[: len(start)] for line in complaints] == [start]


def test_the_scale_of_one_call_is_chance():
    calls = list(observed(0.0).calls)
    calls[2] = observed(0.0045).calls[2]
    found = scales_over_calls(make_observation(case=HALF_ID, calls=tuple(calls)), "gradients")
    assert all(abs(one.seen) <= one.allowed for one in found)
