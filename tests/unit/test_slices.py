"""Tests of the errors of slices along each dimension: channels, heads, time steps and filters."""

import dataclasses

import pytest
import torch

from compilegate.calibration.tolerance_use import table
from compilegate.judging.tensors import examine
from compilegate.judging.tolerances import beyond
from compilegate.observe.compare.errors import are_slices_in_doubt, tensor_errors
from compilegate.observe.compare.nearest_reference import Nudge, Sides
from compilegate.observe.compare.slices import Sliced, worst_slices
from compilegate.records.call import SliceError
from tests.unit.excess import exceeds
from tests.unit.making import make_call, make_checked, make_error, make_observation

IMAGE, HEADS, SEQUENCE, FILTERS = (6, 64, 12, 12), (4, 16, 24, 16), (6, 24, 64), (64, 32, 3, 3)
#: Features of a small network, for a batch of 32.
FEATURES = (32, 20)
HALF_ID = "resnet18-cpu-infer-bf16-default-static"


def sides(shape, seed=0, dtype=torch.bfloat16, noise=3e-3):
    """Return the truth, and two sides that err independently of each other."""
    drawn = torch.Generator().manual_seed(seed)
    truth, *errors = torch.randn(3, *shape, generator=drawn, dtype=torch.float64)
    return truth, *((truth * (1 + noise * error)).to(dtype) for error in errors)


def wrong(side, dimension, *, factor=1.0, more=0.0):
    """Return a tensor that is wrong in the slice 3."""
    changed = side.double()
    part = changed.select(dimension, 3)
    part.copy_(factor * part + more)
    return changed.to(side.dtype)


def sentences(truth, eager, compiled, *, half=True, samples=()):
    """Return what is out of bounds in any figure of a tensor that errs as eager does."""
    (found,) = worst_slices([Sliced(truth, eager, compiled, samples)])
    dtype = str(eager.dtype).removeprefix("torch.")
    noise = 3e-3 if half else 1e-6
    errors = (make_error(dtype=dtype, eager_rms=noise, eager_max=0.05, slices=(s,)) for s in found)
    return [text for error in errors if (text := exceeds(error, 0.0, half=half))]


@pytest.mark.parametrize(
    "shape", [IMAGE, HEADS, SEQUENCE, FILTERS, FEATURES, (32, 1000), (4, 4, 16, 8)]
)
def test_slices_that_err_as_eagers_do_are_in_bounds(shape):
    assert [sentences(*sides(shape, seed)) for seed in range(5)] == [[]] * 5


@pytest.mark.parametrize(
    ("shape", "dimension"),
    [(IMAGE, 1), (HEADS, 1), (SEQUENCE, 1), (FILTERS, 0), (FILTERS, 1), (FEATURES, 1)],
)
@pytest.mark.parametrize(
    ("change", "figure"), [({"factor": 1.01}, "scale"), ({"more": 0.02}, "mean")]
)
def test_one_wrong_slice_of_many_is_out_of_bounds(shape, dimension, change, figure):
    truth, eager, compiled = sides(shape)
    found = sentences(truth, eager, wrong(compiled, dimension, **change))
    where = f"in slice 3 of the {shape[dimension]} along dimension {dimension} (eager"
    assert any(f" {figure} of a slice is off by " in text and where in text for text in found)


def test_a_slice_that_errs_more_without_a_direction_is_out_of_bounds():
    truth, eager, compiled = sides(SEQUENCE)
    other = torch.randn(6, 64, generator=torch.Generator().manual_seed(1))
    compiled[:, 3] = truth[:, 3] * (1 + 0.03 * other)
    *_, text = sentences(truth, eager, compiled)
    assert "root mean square error of a slice is off by 0.0" in text


def test_in_single_precision_a_channel_that_is_off_by_little_is_out_of_bounds():
    truth, eager, compiled = sides(IMAGE, dtype=torch.float32, noise=1e-6)
    assert sentences(truth, eager, compiled, half=False) == []
    assert len(sentences(truth, eager, wrong(compiled, 1, factor=1 + 2e-5), half=False)) > 0


def test_slices_with_an_error_of_their_own_in_eager_may_have_one_in_compiled_code():
    """Weights of a channel are rounded, on both sides in another way."""
    truth, eager, compiled = sides(IMAGE)
    drawn = torch.Generator().manual_seed(1)
    rounded = [
        side * (1 + 4e-3 * torch.randn(1, 64, 1, 1, generator=drawn)) for side in (eager, compiled)
    ]
    assert sentences(truth, *rounded) == []


def test_a_nudged_run_that_is_off_in_a_slice_explains_another_slice():
    truth, eager, compiled = sides(SEQUENCE)
    compiled, nudged = wrong(compiled, 1, factor=1.03), wrong(eager.flip(1), 1, factor=1.03)
    assert sentences(truth, eager, compiled)
    assert sentences(truth, eager, compiled, samples=[nudged.flip(1)]) == []


def test_what_all_slices_have_in_common_is_no_error_of_one():
    truth, eager, compiled = sides(IMAGE)
    figures = {one.what: one for one in worst_slices([Sliced(truth, eager, 1.02 * compiled)])[0]}
    assert figures["scale"].compiled < 5e-3


@pytest.mark.parametrize(
    "shape", [(2000,), (3, 300), (2, 3, 9), (5000, 3)], ids=["vector", "few", "short", "many"]
)
def test_few_slices_or_small_ones_are_not_examined(shape):
    assert worst_slices([Sliced(*sides(shape))]) == [()]


def test_slices_of_zeros_do_not_show_how_much_slices_vary():
    """Of an embedding's gradient, most rows are zero, and so are their errors."""
    truth, eager, compiled = (side.clone() for side in sides((1000, 64)))
    for side in (truth, eager, compiled):
        side[3:] = 0.0
    (found,) = worst_slices([Sliced(truth, eager, compiled)])
    assert {one.dimension for one in found} == {1}


def test_all_slices_of_a_large_tensor_are_seen():
    truth, eager, compiled = sides((64, 3, 60, 60), noise=1e-3)
    for index in (2, 62):
        changed = compiled.clone()
        changed[index] *= 1.01
        (found,) = worst_slices([Sliced(truth, eager, changed)])
        assert (found[0].what, found[0].dimension, found[0].index) == ("scale", 0, index)


def examined(truth, eager, compiled, **changed):
    (error,) = tensor_errors(
        [Sides("output", eager, compiled, [truth], half=True, by_slices=True, **changed)]
    )
    return error


def test_a_tensor_with_numbers_that_are_not_finite_is_not_examined():
    truth, eager, compiled = sides(SEQUENCE)
    assert examined(truth, eager, compiled).slices
    eager[0, 0, 0] = float("nan")
    assert examined(truth, eager, compiled).slices == ()


def test_a_slice_is_in_doubt_before_it_is_out_of_bounds_and_samples_count():
    truth, eager, compiled = sides(SEQUENCE)
    off = wrong(compiled, 1, factor=1.03)
    before = examined(truth, eager, off)
    assert are_slices_in_doubt(before)
    assert not are_slices_in_doubt(examined(truth, eager, compiled))
    samples = [(wrong(eager, 1, factor=1.03), Nudge(1.0, 1.0))]
    (after,) = tensor_errors(
        [Sides("output", eager, off, [truth], samples, half=True, by_slices=True)],
        {"output": before},
    )
    assert not are_slices_in_doubt(after)


def off_by(share, dtype="bfloat16", **changed):
    slices = SliceError(
        what="scale",
        dimension=1,
        index=3,
        slices=64,
        elements=500,
        eager=1e-4,
        compiled=share * 1e-3,
        noise=1e-3,
    )
    error = make_error(dtype=dtype, eager_rms=3e-3, eager_max=0.05, compiled_rms=3e-3)
    return dataclasses.replace(error, **{"slices": (slices,)} | changed)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_doubt_about_a_slice_comes_before_its_bound(dtype):
    noise = {"eager_rms": 3e-3 if dtype == "bfloat16" else 1e-6, "compiled_rms": 1e-6}
    for step in range(1, 60):
        error = off_by(step / 10, dtype, **noise)
        if exceeds(error, 0.0, half=dtype == "bfloat16"):
            assert are_slices_in_doubt(off_by(0.9 * step / 10, dtype, **noise))
            return
    raise AssertionError("nothing is out of bounds")


@pytest.mark.parametrize(
    "changed", [{"eager_rms": 2e-3}, {"eager_rms": 1e-6, "extreme": True}], ids=["jump", "extreme"]
)
def test_slices_do_not_count_where_single_precision_jumps_or_numbers_are_extreme(changed):
    extreme = changed.pop("extreme", False)
    error = off_by(9.0, "float32", **changed)
    found = beyond(error, 0.0, 1.0, extreme=extreme)
    assert not [check for check in found if check.what == "scale of a slice"]


@pytest.mark.parametrize(
    ("shares", "complaints"), [((1.5, 1.5), 0), ((2.5, 1.0), 0), ((2.5, 2.5), 2), ((5.0, 1.0), 1)]
)
def test_a_slice_may_be_out_of_bounds_by_little_in_one_of_several_calls(shares, complaints):
    errors = [off_by(share, scale=1.0 + number) for number, share in enumerate(shares)]
    calls = tuple(make_call(outputs=make_checked(error)) for error in errors)
    seen = make_observation(case=HALF_ID, calls=calls)
    assert len(examine(seen, "outputs").complaints) == complaints


def test_a_run_shows_how_much_of_its_bound_the_worst_slice_of_a_case_uses():
    calls = (make_call(outputs=make_checked(off_by(0.9))),)
    head, *lines = table([make_observation(case=HALF_ID, calls=calls)], by_case=True)
    (line,) = (line for line in lines if "scale of a slice" in line)
    assert line.startswith(f"{HALF_ID}  outputs")
    assert head.startswith("case ")
    assert " 0.42  output in " in line
