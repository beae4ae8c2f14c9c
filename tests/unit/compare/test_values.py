"""Tests of compared values: floating tensors on their own scale, without mask values."""

import math

import pytest
import torch

from compilegate.observe.compare import exact
from compilegate.observe.compare.results import CallResults, compare_outputs
from compilegate.observe.model.result import Result
from tests.unit.compare.sides import (
    Compared,
    complaints,
    differences,
)


@pytest.mark.parametrize(
    ("plant", "eager", "compiled"),
    [
        (math.nan, "0 at [2, 1]; 0 not finite", "nan at [2, 1]; 1 not finite"),
        (math.inf, "0 at [2, 1]; 0 not finite", "inf at [2, 1]; 1 not finite"),
    ],
)
def test_a_non_finite_value_is_found_at_its_place(plant, eager, compiled):
    def theirs(x):
        y = torch.zeros_like(x)
        y[2, 1] = plant
        return y

    assert differences(torch.zeros_like, theirs) == [("output", "nonfinite", eager, compiled)]


@pytest.mark.parametrize(
    ("one", "other"),
    [(math.nan, math.inf), (math.inf, -math.inf), (math.nan, 0.0), (-math.inf, math.nan)],
)
def test_patterns_of_nan_and_infinity_are_distinguished(one, other):
    def planted(value):
        def run(x):
            y = x * 1
            y[0, 0] = value
            return y

        return run

    assert [what for _, what, _, _ in differences(planted(one), planted(other))] == ["nonfinite"]
    assert differences(planted(one), planted(one)) == []


@pytest.mark.parametrize(
    ("eager", "compiled", "truth", "fails"),
    [
        (5.9e22, math.inf, math.inf, False),
        (math.nan, 1.0, 1.0, False),
        (5.9e22, math.inf, 5.9e22, True),
        (math.inf, math.nan, math.inf, True),
        (1.0, math.inf, math.nan, True),
        (math.inf, math.inf, 1e39, False),
    ],
)
def test_eager_alone_errs_where_compiled_code_is_as_the_reference(eager, compiled, truth, fails):
    sides = (torch.tensor([1.0, number]) for number in (eager, compiled))
    truths = [torch.tensor([1.0, truth], dtype=torch.float64)]
    assert bool(exact.nonfinite("output", *sides, truths)) is fails


@pytest.mark.parametrize(
    ("off", "value", "fails"),
    [(2, math.inf, False), (3, math.inf, True), (1, math.nan, True)],
)
def test_where_eager_saturates_compiled_code_may_in_half_as_many_other_elements(off, value, fails):
    truth = torch.arange(10.0, dtype=torch.float64)
    eager, compiled = truth.float(), truth.float()
    eager[:4] = compiled[:4] = math.inf
    compiled[4 : 4 + off] = value
    assert bool(exact.nonfinite("output", eager, compiled, [truth])) is fails
    truth[:4] = 1e39  # it overflows in single precision, as it should
    assert exact.nonfinite("output", eager, compiled, [truth])


def test_finite_values_are_compared_next_to_nan():
    def planted(factor):
        def run(x):
            y = x * factor
            y[0, 0] = math.nan
            return y

        return run

    checked = Compared(planted(1.0), planted(1.5)).outputs
    assert checked.differences == ()
    (error,) = checked.errors
    assert error.numel == 23
    assert error.compiled_rms == pytest.approx(0.5, rel=1e-3)


def next_number(x):
    """The next larger number of a positive one in bfloat16."""
    return (x.view(torch.int16) + 1).view(torch.bfloat16)


@pytest.mark.parametrize(
    ("spread", "theirs", "is_right"),
    [
        (0.0, next_number, True),
        (0.0, lambda x: x * 1.03, False),
        (1.0, next_number, False),
    ],
    ids=["equal numbers, rounded alike", "equal numbers, wrong", "different numbers"],
)
def test_equal_numbers_in_half_precision_are_rounded_alike(spread, theirs, is_right):
    def inputs():
        return (1.1 + spread * torch.linspace(0, 0.8, 33)).bfloat16()

    checked = Compared(lambda x: x * 1, theirs, inputs=inputs).outputs
    assert (complaints(checked) == []) is is_right


def test_a_tensor_without_finite_values_is_compared_by_its_pattern_only():
    checked = Compared(lambda x: x * math.nan, lambda x: x * math.nan).outputs
    assert (checked.tensors, checked.differences) == (1, ())
    (error,) = checked.errors
    assert (error.numel, error.scale) == (0, 0.0)  # it can show nothing: blind


def test_nan_in_a_complex_tensor_is_found():
    def ours(x):
        return torch.complex(x, x)

    def theirs(x):
        y = torch.complex(x, x)
        y[1, 1] = complex(1.0, math.nan)
        return y

    assert [what for _, what, _, _ in differences(ours, theirs)] == ["nonfinite"]


def test_one_wrong_integer_is_found_at_its_place():
    def theirs(x):
        y = torch.arange(24).reshape(6, 4)
        y[4, 2] = 7
        return y

    found = differences(lambda x: torch.arange(24).reshape(6, 4), theirs)
    assert found == [("output", "elements", "18 at [4, 2]", "7 there; 1 of 24 elements differ")]


def test_one_wrong_boolean_is_found():
    found = differences(lambda x: x > 0, lambda x: (x > 0).logical_xor(torch.eye(6, 4).bool()))
    assert [(where, what) for where, what, _, _ in found] == [("output", "elements")]
    assert "4 of 24 elements differ" in found[0][3]


def test_a_wrong_scalar_integer_is_found():
    assert differences(lambda x: torch.tensor(3), lambda x: torch.tensor(4)) == [
        ("output", "elements", "3 at []", "4 there; 1 of 1 elements differ")
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(3, 4), ("mean", "sum"), (True, False), (None, 1), (1, 1.0), (True, 1), (1 + 2j, 1 + 3j)],
)
def test_another_python_value_is_found(ours, theirs):
    found = differences(lambda x: (x * 1, ours), lambda x: (x * 1, theirs))
    assert ("output[1]", "value", repr(ours), repr(theirs)) in found


@pytest.mark.parametrize("value", [3, "mean", True, None, 1 + 2j, torch.float32, b"x"])
def test_equal_python_values_are_no_difference(value):
    assert differences(lambda x: (x * 1, value), lambda x: (x * 1, value)) == []


def test_a_float_of_a_tensor_is_compared_like_a_tensor():
    def mean(factor):
        return lambda x: (x * 1, x.exp().mean().item() * factor)

    checked = Compared(mean(1), mean(1 + 1e-3)).outputs
    assert checked.differences == ()
    (text,) = complaints(checked)
    assert text.startswith("output[1] (float32)")
    assert complaints(Compared(mean(1), mean(1 + 1e-8)).outputs) == []


@pytest.mark.parametrize(("ours", "theirs"), [(0.7, 0.7 * (1 + 1e-8)), (1e200, 1e300), (0.0, 1.0)])
def test_a_float_of_python_alone_must_be_equal(ours, theirs):
    found = differences(lambda x: (x * 1, ours), lambda x: (x * 1, theirs))
    assert found == [("output[1]", "value", str(ours), str(theirs))]
    assert differences(lambda x: (x * 1, ours), lambda x: (x * 1, ours)) == []


def test_a_python_float_that_is_nan_on_one_side_is_found():
    found = differences(lambda x: (x * 1, 0.5), lambda x: (x * 1, math.nan))
    assert found == [("output[1]", "value", "0.5", "nan")]


@pytest.mark.parametrize("place", [(0, 0), (37, 512), (300, 7), (511, 1023)])
def test_one_element_among_many_is_found_and_shown(place):
    def many():
        return torch.randn(512, 1024)

    def theirs(x):
        y = x * 1
        y[place] += 5e-3
        return y

    checked = Compared(lambda x: x * 1, theirs, inputs=many).outputs
    (error,) = checked.errors
    assert error.numel == 512 * 1024
    assert error.compiled_max == pytest.approx(5e-3, rel=0.02)
    assert error.worst_index == place
    assert error.worst_values[1] - error.worst_values[0] == pytest.approx(5e-3, rel=1e-3)
    assert len(complaints(checked)) == 1


def test_the_errors_of_a_large_tensor_cover_all_its_elements():
    torch.manual_seed(0)
    truth = torch.randn(700, 1000, dtype=torch.float64)
    sides = [truth.float(), (truth * 1.001 + 1e-3 * torch.randn_like(truth)).float(), truth]
    ours, theirs, known = (Result(output={"output": side}) for side in sides)
    (error,) = compare_outputs(CallResults(ours, theirs, [known])).errors
    scale = float(truth.square().mean().sqrt())
    for side, value in (("eager", sides[0]), ("compiled", sides[1])):
        off = value.double() - truth
        figures = {
            "max": float(off.abs().max()) / scale,
            "rms": float(off.square().mean().sqrt()) / scale,
            "projection": float((off * truth).sum() / truth.square().sum()),
        }
        seen = {figure: getattr(error, f"{side}_{figure}") for figure in figures}
        assert seen == pytest.approx(figures, rel=1e-6)
    assert (error.numel, error.scale) == (700_000, pytest.approx(scale))


def test_a_scale_error_of_one_percent_is_found_even_in_bf16():
    def many():
        return torch.randn(256, 256)

    def ours(x):
        return (x * 1).bfloat16()

    def theirs(x):
        return (x * 1.01).bfloat16()

    (error,) = (checked := Compared(ours, theirs, inputs=many).outputs).errors
    assert error.dtype == "bfloat16"
    assert error.compiled_projection == pytest.approx(0.01, rel=0.05)
    assert abs(error.eager_projection) < 1e-3
    assert len(complaints(checked)) == 1
    assert complaints(Compared(ours, ours, inputs=many).outputs) == []


@pytest.mark.parametrize(
    "theirs",
    [
        lambda x: x * 0,
        lambda x: x * 0.5,
        lambda x: -x,
        lambda x: x.flip(0),
        lambda x: x.half().float(),
        lambda x: x + 1e-4,
    ],
    ids=["zeroed", "halved", "negated", "reversed", "half precision", "shifted"],
)
def test_gross_faults_are_found(theirs):
    assert complaints(Compared(lambda x: x * 1, theirs).outputs)


def test_zeros_against_small_numbers_are_found():
    assert complaints(Compared(lambda x: x * 0, lambda x: x * 0 + 1e-5).outputs)
    assert complaints(Compared(lambda x: x * 1e-5, lambda x: x * 0).outputs)


def test_errors_are_relative_to_the_scale_of_float64():
    def ours(x):
        return 100 * (x.square().sum() + 1e-3)

    (error,) = Compared(ours, lambda x: ours(x) * 1.25).outputs.errors
    assert error.scale == pytest.approx(error.worst_values[2])
    assert error.compiled_max == error.compiled_rms == pytest.approx(0.25, rel=1e-5)
    assert error.compiled_projection == pytest.approx(0.25, rel=1e-5)
    assert error.eager_max < 1e-6
    assert error.worst_index == ()


def test_both_parts_of_complex_values_are_compared():
    def ours(x):
        return torch.complex(x, 2 * x)

    def theirs(x):
        return torch.complex(x, 2.02 * x)

    checked = Compared(ours, theirs).outputs
    assert checked.errors[0].dtype == "complex64"
    assert len(complaints(checked)) == 1
    assert complaints(Compared(ours, ours).outputs) == []


def test_without_a_reference_eager_replaces_it():
    made = Compared(lambda x: x * 1, lambda x: x * 1.5)
    (error,) = compare_outputs(CallResults(made.eager, made.compiled)).errors
    assert error.eager_rms == 0.0
    assert error.compiled_rms == pytest.approx(0.5)


def test_a_sparse_output_is_compared_by_its_values():
    found = Compared(lambda x: x.to_sparse(), lambda x: (2 * x).to_sparse()).outputs
    assert found.differences == ()
    assert complaints(found)
    assert differences(lambda x: x.to_sparse(), lambda x: x * 1)


def marked(mark, factor=1.0):
    """Return a first column of mask values next to other values."""

    def run(x):
        values = x * factor
        return torch.cat([mark(values[:, :1]), values[:, 1:]], 1)

    return run


MARKS = {
    "mask": lambda x: torch.full_like(x, -1e9),
    "least number": lambda x: torch.full_like(x, torch.finfo(torch.float32).min),
    "mask that is added": lambda x: x - 1e9,
    "large bias": lambda x: x + 1e6,
}


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_mask_values_do_not_hide_other_errors(mark):
    healthy = Compared(marked(mark), marked(mark)).outputs
    assert complaints(healthy) == []
    assert 0.1 < healthy.errors[0].scale < 10
    assert complaints(Compared(marked(mark), marked(mark, 1.001)).outputs)


def test_a_wrong_mask_value_is_found():
    ours, theirs = (marked(lambda x, m=m: torch.full_like(x, m)) for m in (-1e9, -1.1e9))
    assert complaints(Compared(ours, theirs).outputs)


def test_large_values_are_no_mask_values_if_all_are_large():
    (error,) = Compared(lambda x: x * 1e9, lambda x: x * 1e9).outputs.errors
    assert error.scale > 1e8
    assert error.numel == 24
