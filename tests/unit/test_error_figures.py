"""Tests of the errors of many tensors at once, and of whole rows and columns."""

from dataclasses import asdict, replace

import pytest
import torch

from compilegate.observe.compare.error_figures import Measurand, measure_errors
from compilegate.observe.compare.rows_and_columns import along_rows, worst_column
from tests.unit.excess import exceeds
from tests.unit.making import make_error

NAN, INFINITY = float("nan"), float("inf")


def noisy(values, dtype=torch.float32, sides=2):
    """Return a tensor with given first elements, which are correct on sides that err elsewhere."""
    generator = torch.Generator().manual_seed(len(values))
    truth = torch.randn(400, dtype=torch.float64, generator=generator)
    truth[: len(values)] = torch.tensor(values, dtype=torch.float64)
    noise = 1e-3 * torch.randn(sides, 400, dtype=torch.float64, generator=generator)
    noise[:, : len(values)] = 0.0
    return Measurand(truth, [*(truth * (1 + noise)).to(dtype)], [truth])


MANY = {
    "plain": noisy([]),
    "other numbers": noisy([2.0]),
    "marks": noisy([-1e9] * 100),
    "NaN": noisy([NAN, NAN]),
    "infinities": noisy([INFINITY, -INFINITY]),
    "large": noisy([1e6] * 390),
    "zero": noisy([0.0] * 400),
    "all NaN": noisy([NAN] * 400),
    "half precision": noisy([1.0] * 3, torch.bfloat16),
    "three sides": noisy([1.0] * 4, sides=3),
    "few numbers": Measurand(torch.tensor([3.0, 4.0]), [torch.tensor([3.0, 4.5])]),
}


@pytest.mark.parametrize("name", MANY)
def test_a_tensor_has_the_same_errors_among_others_and_alone(name):
    together = dict(zip(MANY, measure_errors([*MANY.values()]), strict=True))[name]
    for side, alone in zip(together, measure_errors([MANY[name]])[0], strict=True):
        assert asdict(side) == pytest.approx(asdict(alone), nan_ok=True)


def test_mask_values_of_one_tensor_do_not_hide_large_numbers_of_another():
    marks, large = noisy([-1e9] * 100), noisy([1e6] * 390)
    (masked, _), (whole, _) = measure_errors([marks, large])
    assert (masked.numel, whole.numel) == (300, 400)
    assert whole.scale == pytest.approx(1e6, rel=0.02)


@pytest.mark.parametrize(
    ("off", "numel", "most"), [(0.0, 380, 2e-3), (3e-5, 400, 2e-7), (1.0, 400, 3e-3)]
)
def test_large_numbers_are_no_mask_values_where_one_of_them_is_off(off, numel, most):
    """One is a small difference of two others, which their rounding moves by many units."""
    given = noisy([*[1e34] * 10, 1e32, *[-1e34] * 9])
    given.sides[1][10] *= 1 + off
    _, found = measure_errors([given])[0]
    assert found.numel == numel
    assert most / 4 < found.rms < most


def rows(count=40, width=256):
    torch.manual_seed(0)
    return torch.randn(count, width, dtype=torch.float64)


def each_by_itself(truth, amount):
    """Return rows with a scale error of about a given size."""
    return truth * (1 + amount * torch.randn(len(truth), 1))


def elementwise(truth, amount):
    return truth * (1 + amount * torch.randn_like(truth))


def test_errors_of_whole_rows_stand_out_from_errors_of_elements():
    truth = rows()
    sides = [elementwise(truth, 2e-3), each_by_itself(truth, 1e-3)]
    count, (noise, off), _ = along_rows(truth, sides)
    assert count == 40
    assert noise < 2.5e-4
    assert off == pytest.approx(0.67e-3, rel=0.4)


def test_one_row_that_jumped_does_not_change_the_median():
    truth = rows()
    side = elementwise(truth, 1e-4)
    before = along_rows(truth, [side])[1]
    side[3] *= 2
    assert along_rows(truth, [side])[1] == pytest.approx(before, rel=0.2)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_rows_that_are_not_finite_or_zero_do_not_count(value):
    truth = rows()
    side = each_by_itself(truth, 1e-3)
    whole = along_rows(truth, [side])[1]
    truth[0], side[0], truth[1], side[1] = 0.0, 0.0, value, value
    assert along_rows(truth, [side])[1] == pytest.approx(whole, rel=0.2)


@pytest.mark.parametrize("shape", [(100,), (3, 256), (7, 2), ()])
def test_few_rows_are_not_examined(shape):
    truth = torch.ones(shape, dtype=torch.float64)
    assert along_rows(truth, [2 * truth]) == (0, [0.0], [0.0])


@pytest.mark.parametrize("width", [6, 256])
@pytest.mark.parametrize("factor", [1.0, 1.005])
def test_some_wrong_rows_move_the_high_figure_alone(width, factor):
    truth = rows(400, width)
    ours, theirs = elementwise(truth, 1e-3), elementwise(truth, 1e-3)
    theirs[3::8] *= factor
    _, medians, highs = along_rows(truth, [ours, theirs])
    assert medians[1] < 1.5 * medians[0]
    assert (highs[1] > 2.5 * highs[0]) is (factor > 1)


@pytest.mark.parametrize("width", [2, 1])
def test_rows_of_few_numbers_are_joined(width):
    assert along_rows(rows(40, width), [rows(40, width)]).examined == 40 * width // 4


def test_what_all_rows_have_in_common_is_no_error_of_single_rows():
    truth = torch.randn(32, 1000, generator=torch.Generator().manual_seed(0)).double()
    _, medians, highs = along_rows(truth, [1.001 * truth])
    assert (*medians, *highs) == pytest.approx((0.0, 0.0), abs=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_a_part_of_the_rows_that_is_too_large_shows(share):
    truth = torch.randn(40, 1000, generator=torch.Generator().manual_seed(0)).double()
    factors = torch.ones(40, 1).double()
    factors[: int(40 * share)] = 1.005
    _, _, highs = along_rows(truth, [factors * truth])
    assert highs == pytest.approx([0.005], rel=1e-3)


def boxes(conf_factor=1.0, seed=1):
    """Return coordinates in pixels next to confidences, rounded to bfloat16."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(64, 5, generator=generator, dtype=torch.float64)
    truth[:, :4] *= 640
    noise = torch.randn(64, 5, generator=torch.Generator().manual_seed(seed))
    made = truth * (1 + 0.002 * noise)
    made[:, 4] *= conf_factor
    return truth, made.bfloat16()


@pytest.mark.parametrize(("factor", "column", "off"), [(0.5, 4, 0.5), (1.1, 4, 0.1)])
def test_the_worst_column_is_measured_on_its_own_scale(factor, column, off):
    truth, eager = boxes()
    found, ours, theirs = worst_column(truth, eager, boxes(factor, seed=2)[1])
    assert found == column
    assert theirs == pytest.approx(off, rel=0.1)
    assert ours < 0.005


def logits(seed):
    """Return logits of an untrained classifier, whose rows are alike and err alike."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.randn(1, 1000, generator=generator) + 0.1 * torch.randn(
        32, 1000, generator=generator
    )
    drawn = torch.Generator().manual_seed(seed)
    common, own = (torch.randn(rows, 1000, generator=drawn) for rows in (1, 32))
    return truth.double(), (truth + 0.01 * common + 0.003 * own).bfloat16()


def column_excess(compiled_seed, factor=1.0):
    """Return what the worst column of logits is beyond, if anything."""
    truth, eager = logits(seed=100)
    _, compiled = logits(compiled_seed)
    compiled[:, 0] *= factor
    column, ours, theirs = worst_column(truth, eager, compiled)
    whole = ((eager - truth).norm() / truth.norm()).item()
    error = make_error(dtype="bfloat16", eager_rms=whole, eager_max=0.1)
    return exceeds(
        replace(error, column=column, eager_column=ours, compiled_column=theirs), 0.0, half=True
    )


def test_a_column_in_which_eager_is_right_by_luck_may_err_as_its_neighbours_do():
    assert [column_excess(seed) for seed in range(30)] == [""] * 30


def test_a_wrong_column_among_many_whose_rows_err_alike_shows():
    assert "error of column 0 " in column_excess(1, factor=1.1)


def test_columns_of_few_rows_are_not_examined():
    truth, eager = boxes()
    assert worst_column(truth[:15], eager[:15], eager[:15])[0] == -1
    assert worst_column(truth[:, 0], eager[:, 0], eager[:, 0])[0] == -1


def test_rows_that_are_equal_count_as_one_row():
    """Of a batch of one row again and again, a column is a single number."""
    truth, eager = boxes()
    other = boxes(seed=2)[1]
    for repeated, examined in ((64, False), (2, True)):
        sides = [side[::repeated].repeat(repeated, 1) for side in (truth, eager, other)]
        assert (worst_column(*sides)[0] >= 0) is examined


def test_columns_of_zeros_or_non_finite_values_do_not_count():
    truth, eager = boxes()
    other = boxes(seed=2)[1]
    for side in (truth, eager, other):
        side[:, 0], side[:, 1], side[3, 2] = 0.0, torch.nan, torch.inf
    found, ours, theirs = worst_column(truth, eager, other)
    assert found in (2, 3, 4)
    assert 0 < ours < 0.01
    assert 0 < theirs < 0.01


def test_a_column_with_one_large_row_and_many_small_ones_does_not_count():
    truth, eager = boxes()
    other = boxes(seed=2)[1]
    for side in (truth, eager, other):
        side[1:, 4] *= 1e-3
    other[0, 4] *= 1.05  # by chance, where rounding of a single number is all that is seen
    assert worst_column(truth, eager, other)[0] != 4
