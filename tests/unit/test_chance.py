"""What is out of bounds by little and once is no fault."""

import itertools

import pytest

from compilegate.judging.tensors import examine
from compilegate.judging.tolerances import SLICES_OF_GRADIENTS
from compilegate.records.call import SliceError
from compilegate.records.rounding import EPS
from tests.unit.making import make_call, make_checked, make_error, make_observation

HALF = "resnet18-cuda-train-f16-default-static"
HALF_ON_CPU = "resnet18-cpu-train-bf16-default-static"
SINGLE = "resnet18-cuda-train-f32-default-static"
NOISE = 1e-3
LITTLE, MORE = 1.3, 1.6  # times what is allowed
COLUMN = 4 * NOISE + 0.5 * EPS["bfloat16"]  # what is allowed of a column


SCALES = itertools.count(1)


def out_by(factor, name="gradient weight", allowed=1.75 * NOISE, **changed):
    of_eager = {"eager_rms": NOISE, "eager_max": 4 * NOISE, "eager_quantile": 2.6 * NOISE}
    fields = (
        of_eager
        | {"scale": next(SCALES)}
        | {"compiled_rms": factor * allowed, "compiled_max": 4 * NOISE}
        | changed
    )
    return make_error(name, **fields)


def complaints(case, *groups, group="gradients", probing=False):
    """How many tensors are wrong, given the tensors of each call."""
    of_probe = {"probe": "transposed inputs"} if probing else {}
    calls = tuple(make_call(**{group: make_checked(*errors)}, **of_probe) for errors in groups)
    seen = make_observation(case=case, **{"probes" if probing else "calls": calls})
    return len(examine(seen, group).complaints)


def column(factor):
    sound = {"compiled_rms": NOISE, "column": 4, "eager_column": NOISE}
    return out_by(1, "output", dtype="bfloat16", compiled_column=factor * COLUMN, **sound)


@pytest.mark.parametrize(
    ("factors", "expected"),
    [((1.1, 0.5), 0), ((1.1, 1.1), 2), ((MORE, 0.5), 1), ((1.1,), 1)],
    ids=["once, by little", "twice", "once, by more", "in the only call"],
)
def test_a_column_of_an_output_may_be_out_of_bounds_once(factors, expected):
    calls = [[column(factor)] for factor in factors]
    assert complaints(HALF, *calls, group="outputs") == expected


def filtered(factor):
    """A gradient whose filters err as eager's do, but for one."""
    noise = 0.1
    allowed = SLICES_OF_GRADIENTS.factor * noise + SLICES_OF_GRADIENTS.floor * EPS["bfloat16"]
    worst = SliceError(
        what="scale",
        dimension=0,
        index=40,
        slices=96,
        elements=1728,
        eager=0.01,
        compiled=factor * allowed,
        noise=noise,
    )
    return out_by(0.5, dtype="bfloat16", slices=(worst,))


@pytest.mark.parametrize(
    ("factors", "expected"),
    [((1.9, 0.5), 0), ((2.1, 0.5), 1), ((1.9, 1.9), 2), ((1.9,), 1)],
    ids=["once, by little", "once, by more", "twice", "in the only call"],
)
def test_a_filter_may_be_out_of_bounds_once_where_a_relu_opens(factors, expected):
    assert complaints(HALF_ON_CPU, *([filtered(factor)] for factor in factors)) == expected


def test_a_column_of_an_output_in_single_precision_may_not_be_out_of_bounds():
    calls = [[make_error(column=4, compiled_column=c, eager_column=0.0)] for c in (1e-2, 0.0)]
    assert complaints(SINGLE, *calls, group="outputs") == 1


@pytest.mark.parametrize(
    ("case", "allowed"), [(HALF, 1.75 * NOISE), (SINGLE, 3 * NOISE)], ids=["half", "jumping"]
)
def test_a_gradient_may_be_out_of_bounds_in_one_probing_call(case, allowed):
    little, more, sound = (out_by(by, allowed=allowed) for by in (LITTLE, 2.2, 0))
    other = out_by(LITTLE, "gradient bias", allowed=allowed)
    assert complaints(case, [little, other], [sound], probing=True) == 0
    assert complaints(case, [little], [little], probing=True) == 2
    assert complaints(case, [more], [sound], probing=True) == 1


def test_the_same_numbers_in_another_layout_are_no_second_draw():
    little, sound = out_by(LITTLE), out_by(0)
    other = out_by(LITTLE)
    assert complaints(HALF, [little], [little], [sound], probing=True) == 0
    assert complaints(HALF, [little], [other], [sound], probing=True) == 2
    assert complaints(HALF, [little], [little], probing=True) == 2  # nothing else is known of it


@pytest.mark.parametrize(
    ("factors", "expected"),
    [((1.1, 0.5), 0), ((1.1, 1.1), 2), ((MORE, 0.5), 1)],
    ids=["once, by little", "twice", "once, by more"],
)
def test_an_update_may_be_out_of_bounds_once_as_its_gradient_may(factors, expected):
    calls = [[out_by(factor, "update weight")] for factor in factors]
    assert complaints(HALF, *calls) == expected


@pytest.mark.parametrize(
    ("of_gradient", "expected"),
    [(MORE, 0), (LITTLE, 1), (40, 2)],
    ids=["by as much as its gradient", "by more", "and its gradient is wrong"],
)
def test_an_update_is_as_right_as_its_gradient(of_gradient, expected):
    """As measured: eager's gradient errs by as much in another call, which lends its noise."""
    gradient = out_by(of_gradient, eager_rms=NOISE, jumps=True)
    updated = out_by(MORE, "update weight")
    assert complaints(HALF, [gradient, updated]) == expected


@pytest.mark.parametrize(("units", "expected"), [(1, 0), (2, 1)])
def test_elements_of_a_parameter_in_half_precision_may_be_one_unit_off(units, expected):
    """Each step rounds the parameter: here, many elements the other way."""
    off = {"compiled_rms": NOISE, "compiled_quantile": units * EPS["bfloat16"]}
    stepped = out_by(0, "parameter weight", dtype="bfloat16", **off)
    assert complaints(HALF, [stepped], [out_by(0)]) == expected


@pytest.mark.parametrize("case", [HALF, HALF_ON_CPU], ids=["on a GPU", "on a CPU"])
def test_one_parameter_that_is_out_of_bounds_in_each_call_is_wrong(case):
    call = [out_by(LITTLE), out_by(0, "gradient bias")]
    assert complaints(case, call, call, call) == 3


def test_a_wrong_scale_is_never_chance():
    scaled = out_by(1, compiled_rms=NOISE, compiled_projection=0.01)
    assert complaints(HALF, [scaled], [out_by(0)]) == 1


@pytest.mark.parametrize(
    ("factors", "expected"),
    [((0, 0, 1.1, 1.1), 0), ((1.1, 1.1, 0, 0), 2), ((0, 1.1, 1.1, 1.1), 3), ((0, 0, 1.1, MORE), 2)],
    ids=["late", "from the first call on", "three calls", "by more"],
)
def test_a_buffer_may_keep_what_was_out_of_bounds_for_one_call(factors, expected):
    calls = [[out_by(factor, "buffer running_mean")] for factor in factors]
    assert complaints(HALF, *calls, group="state") == expected
