"""In half precision, rounding errors alone move a bias before a batch norm."""

import pytest

from compilegate.judging.tensors import examine
from tests.unit.making import make_call, make_checked, make_error, make_observation

CASE = "net-cpu-train-bf16-default-static"


def bias(name, scale, eager, compiled):
    """The error of a bias, as a share of its scale."""
    figures = {
        f"{side}_{figure}": rms * times
        for side, rms in (("eager", eager), ("compiled", compiled))
        for figure, times in (("rms", 1.0), ("max", 3.0))
    }
    own = {"eager_own": eager, "has_reference": True, "samples": 8}
    return make_error(f"{name} bias", numel=32, scale=scale, **figures, **own)


@pytest.mark.parametrize(
    ("gradient", "ratio", "outcome"),
    [
        (bias("gradient", 1e-17, 1e12, 3e12), 2.9, None),
        (bias("gradient", 1e-17, 1e12, 3e12), 40.0, "failed"),
        (bias("gradient", 1e-3, 0.005, 0.005), 2.9, "failed"),
        (bias("gradient", 0.0, 0.0, 0.0), 2.9, "failed"),
    ],
    ids=["rounding moves it", "something else moves it", "its gradient moves it", "nothing does"],
)
@pytest.mark.parametrize("calls", [1, 8])
def test_a_parameter_that_rounding_moves_may_err_more(gradient, ratio, outcome, calls):
    made = (
        make_call(gradients=make_checked(gradient, bias("parameter", 0.07, noise, ratio * noise)))
        for noise in (0.005 * (1 + 0.01 * index) for index in range(calls))
    )
    found = examine(make_observation(case=CASE, calls=tuple(made)), "gradients").finding
    assert (found and found.outcome) == outcome, found
