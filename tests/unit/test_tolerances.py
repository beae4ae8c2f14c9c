"""Bounds: errors that eager's noise allows, and errors that it never allows."""

import dataclasses

import pytest

from compilegate.judging.tensors import examine
from compilegate.judging.tolerances import WITHOUT_REFERENCE
from compilegate.records.rounding import BLIND, EPS, is_blind
from tests.unit.excess import exceeds
from tests.unit.making import make_call, make_checked, make_error, make_observation

EAGER_NOISE = 1e-7
HALF_ID = "resnet18-cpu-infer-bf16-default-static"


def observation_of(*errors, **changed):
    return make_observation(calls=(make_call(outputs=make_checked(*errors)),), **changed)


def complaint(**error):
    return exceeds(make_error(**error), EAGER_NOISE)


def test_compiled_as_good_as_eager_is_within_bounds():
    assert complaint() == ""


def test_compiled_better_than_eager_is_within_bounds():
    assert complaint(compiled_max=0.0, compiled_rms=0.0) == ""


def test_thrice_eagers_noise_is_within_bounds():
    assert complaint(compiled_rms=3 * EAGER_NOISE, compiled_max=16 * EAGER_NOISE) == ""


@pytest.mark.parametrize(
    ("name", "on_cpu", "is_right"),
    [("gradient w", True, True), ("gradient w", False, False), ("output", True, False)],
)
def test_gradients_on_a_cpu_may_be_summed_one_after_the_other(name, on_cpu, is_right):
    error = make_error(name, eager_rms=2.4e-6, compiled_rms=2.1e-5, compiled_max=5e-5)
    assert (exceeds(error, 0.0, on_cpu=on_cpu) == "") is is_right


@pytest.mark.parametrize(("numel", "is_right"), [(2, True), (100, False)])
def test_one_of_few_elements_may_be_rounded_the_other_way(numel, is_right):
    off = 0.4 * EPS["float16"]
    figures = {"eager_rms": 0.0, "eager_max": 0.0, "compiled_rms": off, "compiled_max": 2 * off}
    assert (exceeds(make_error(dtype="float16", numel=numel, **figures), 0.0) == "") is is_right


def test_error_of_the_whole_tensor_is_out_of_bounds():
    text = complaint(compiled_rms=1e-5, compiled_max=1e-4)
    assert text.startswith("output (float32): root mean square error is 1e-05 of its scale 1 ")
    assert "(eager 1e-07, allowed" in text
    assert text.endswith("worst at [3, 1]: compiled 1.5, eager 1, reference 1")


@pytest.mark.parametrize(
    ("compiled", "shown"),
    [(1.5, "compiled 1.5, eager 1,"), (1.00000012, "compiled 1.0000001, eager 1,")],
)
def test_worst_values_have_as_many_digits_as_tell_them_apart(compiled, shown):
    assert shown in complaint(compiled_rms=1e-5, worst_values=(1.0, compiled, 1.0))


def test_equal_worst_values_have_six_digits():
    third = 1 / 3
    text = complaint(compiled_rms=1e-5, worst_values=(third, third, third))
    assert "compiled 0.333333, eager 0.333333," in text


def test_one_wrong_element_among_a_million_is_out_of_bounds():
    text = complaint(numel=10**6, compiled_rms=5e-6, compiled_max=5e-3)
    assert "error is" in text
    # Also where its share in the root mean square drowns.
    text = complaint(numel=10**9, compiled_rms=2 * EAGER_NOISE, compiled_max=5e-3)
    assert "largest error is 0.005 of its scale" in text


@pytest.mark.parametrize(
    ("projection", "direction"), [(0.01, "too large by 0.01"), (-0.01, "too small by 0.01")]
)
def test_a_scale_fault_below_bf16_noise_is_out_of_bounds(projection, direction):
    noise = 2e-3  # element by element, so 1% of the elements' scale is within its bounds
    text = complaint(
        dtype="bfloat16",
        numel=100_000,
        eager_rms=noise,
        eager_max=8 * noise,
        compiled_rms=2 * noise,
        compiled_max=10 * noise,
        compiled_projection=projection,
    )
    assert f"scale is {direction}" in text


@pytest.mark.parametrize(
    ("dtype", "noise", "is_right"),
    [("float32", 1e-3, True), ("float32", 1e-5, False), ("bfloat16", 0.05, False)],
)
def test_one_jump_is_within_bounds_where_noise_exceeds_rounding(dtype, noise, is_right):
    """As measured: a ReLU that opened in one channel of a norm's bias, 256 elements, in float32."""
    jumped = make_error(
        dtype=dtype,
        numel=256,
        eager_rms=noise,
        eager_max=12 * noise,
        compiled_rms=6.3 * noise,
        compiled_max=85 * noise,
    )
    assert (exceeds(jumped, noise) == "") is is_right


@pytest.mark.parametrize(("numel", "is_right"), [(2_359_296, True), (2_000, False)])
def test_the_allowance_for_a_jump_grows_with_the_tensor(numel, is_right):
    """As measured: one opened ReLU in the update of ResNet-18's last convolutions, in float32."""
    noise = 1.4e-3
    jumped = make_error(
        numel=numel, eager_rms=noise, eager_max=2e-3, compiled_rms=noise, compiled_max=0.138
    )
    assert (exceeds(jumped, noise) == "") is is_right


@pytest.mark.parametrize(("noise", "is_right"), [(0.12, True), (0.015, False)])
def test_where_half_precision_is_chaotic_one_run_is_far_from_another(noise, is_right):
    """As measured: the gates of MobileNetV3's squeeze and excitation, trained in bfloat16."""
    gate = make_error(
        dtype="bfloat16",
        eager_rms=noise,
        eager_quantile=0.7 / 0.12 * noise,
        eager_max=10 * noise,
        compiled_rms=2.2 * noise,
        compiled_quantile=1.29 / 0.12 * noise,
        compiled_max=20 * noise,
    )
    assert (exceeds(gate, noise) == "") is is_right


@pytest.mark.parametrize("fault", [{"compiled_rms": 0.05}, {"compiled_projection": 0.05}])
def test_an_error_of_all_elements_is_out_of_bounds(fault):
    assert exceeds(make_error(eager_rms=1e-3, eager_max=1.2e-2, **fault), 1e-3)


@pytest.mark.parametrize(("name", "is_right"), [("output", False), ("gradient weight", True)])
def test_outputs_have_narrower_bounds_on_scale_than_gradients(name, is_right):
    """A last product that is 0.3% too large, in bfloat16."""
    scaled = make_error(
        name,
        dtype="bfloat16",
        numel=10_000,
        eager_rms=6e-3,
        eager_max=0.03,
        compiled_rms=6.7e-3,
        compiled_max=0.04,
        compiled_projection=3e-3,
    )
    assert (exceeds(scaled, 6e-3) == "") is is_right


def test_eagers_own_scale_fault_is_allowed_to_compiled():
    fault = {"eager_projection": 1e-3, "compiled_projection": 2e-3}
    assert complaint(eager_rms=1e-3, eager_max=2e-3, compiled_rms=2e-3, **fault) == ""


def test_the_floor_is_of_the_tensors_own_resolution():
    near = 0.08 * EPS["bfloat16"]
    assert complaint(dtype="bfloat16", eager_rms=0.0, eager_max=0.0, compiled_rms=near) == ""
    assert complaint(dtype="float32", eager_rms=0.0, eager_max=0.0, compiled_rms=near) != ""


def test_a_tensor_without_eager_error_gets_the_noise_of_its_group():
    lucky = make_error(eager_rms=0.0, eager_max=0.0, compiled_rms=5e-6, compiled_max=1e-5)
    assert exceeds(lucky, pooled_noise=1e-7) != ""
    assert exceeds(lucky, pooled_noise=1e-5) == ""


def test_without_a_reference_floors_are_wider():
    error = make_error(
        eager_rms=0.0, eager_max=0.0, compiled_rms=20 * EPS["float32"], compiled_projection=1e-6
    )
    assert exceeds(error, 0.0) != ""
    assert exceeds(error, 0.0, WITHOUT_REFERENCE) == ""
    assert examine(observation_of(error), "outputs").complaints
    alone = dataclasses.replace(error, has_reference=False)
    assert not examine(observation_of(alone), "outputs").complaints


# Blindness.


@pytest.mark.parametrize(
    ("changed", "blind"),
    [
        ({}, False),
        ({"scale": 0.0}, True),
        ({"eager_rms": BLIND}, False),
        ({"eager_rms": 1.01 * BLIND}, True),
        ({"compiled_rms": 1e6}, False),
    ],
)
def test_zeros_and_mere_noise_are_blind(changed, blind):
    assert is_blind(make_error(**changed)) == blind


def test_zeros_stay_zeros():
    zeros = {"scale": 0.0, "eager_max": 0.0, "eager_rms": 0.0}
    assert complaint(**zeros, compiled_max=0.0, compiled_rms=0.0) == ""
    assert complaint(**zeros, compiled_max=1e-5, compiled_rms=1e-5) != ""


def test_a_tensor_without_finite_elements_is_within_bounds():
    """Where it is NaN on all sides, all figures are zero."""
    figures = ("scale", "eager_max", "eager_rms", "compiled_max", "compiled_rms")
    assert complaint(numel=0, **dict.fromkeys(figures, 0.0)) == ""


def test_gross_errors_show_even_where_a_tensor_is_blind():
    noisy = {"eager_rms": 0.5, "eager_max": 2.0, "compiled_rms": 0.5}
    assert complaint(**noisy, compiled_max=100.0) == ""
    assert "largest error is 300" in complaint(**noisy, compiled_max=300.0)


def test_a_blind_tensor_does_not_widen_its_neighbours_bounds():
    blind = [make_error(f"noise{i}", eager_rms=0.5, eager_max=2.0) for i in range(3)]
    wrong = make_error("wrong", compiled_rms=1e-4, compiled_max=1e-3)
    seen = examine(observation_of(*blind, wrong), "outputs")
    assert [c.split(" ")[2] for c in seen.complaints] == ["wrong"]
    assert (list(seen.blind), seen.floating) == (["noise0", "noise1", "noise2"], 4)


# Columns, in half precision.


@pytest.mark.parametrize(("off", "passes"), [(0.01, True), (0.1, False), (0.5, False)])
def test_the_worst_column_is_compared_with_eagers(off, passes):
    error = make_error(dtype="bfloat16", eager_rms=3e-3, compiled_rms=3e-3, eager_max=0.01)
    error = dataclasses.replace(error, column=4, eager_column=2e-3, compiled_column=off)
    text = exceeds(error, 0.0, half=True)
    assert (text == "") is passes
    assert passes or "error of column 4 of the last dimension is" in text
    assert exceeds(dataclasses.replace(error, column=-1), 0.0, half=True) == ""


@pytest.mark.parametrize(
    ("compiled", "changed", "is_right"),
    [
        (2e-5, {}, True),  # somewhat worse than eager, in single precision
        (1.5e-3, {}, False),  # a layer outside of autocast that compiled code leaves in bfloat16
        (1.5e-3, {"eager_rms": 1e-3, "eager_max": 4e-3}, True),
        (1.5e-3, {"numel": 2}, True),  # the error of two elements is small by chance
        (1.5e-3, {"has_reference": False}, True),
    ],
)
def test_a_tensor_in_single_precision_does_not_borrow_the_noise_of_half(
    compiled, changed, is_right
):
    fields = {"compiled_rms": compiled, "compiled_max": compiled, **changed}
    error = make_error("gradient head.bias", **fields)
    assert (exceeds(error, 4.5e-3, half=True) == "") is is_right


@pytest.mark.parametrize(
    ("projection", "noise", "expected"),
    [(8e-8, 3e-8, ""), (8e-8, 3e-3, ""), (2e-6, 3e-8, "scale is too large"), (1e-3, 3e-8, "scale")],
)
def test_single_precision_in_a_case_in_half_has_the_floor_of_single_precision(
    projection, noise, expected
):
    """A norm of a weight outside of autocast scales each element by one rounded number."""
    error = make_error(
        numel=96, eager_rms=noise, eager_own=noise, compiled_rms=noise,
        compiled_projection=projection, eager_projection=3e-9,
    )  # fmt: skip
    text = exceeds(error, 0.0, half=True)
    assert expected in text
    assert bool(text) is bool(expected)
