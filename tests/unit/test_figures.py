"""By how much single rows are too large or too small."""

import pytest
import torch

from fixtures.observe.figures import along_rows


def rows(count=40, width=256):
    torch.manual_seed(0)
    return torch.randn(count, width, dtype=torch.float64)


def each_by_itself(truth, amount):
    """Rows that are too large or too small by about so much."""
    return truth * (1 + amount * torch.randn(len(truth), 1))


def elementwise(truth, amount):
    return truth * (1 + amount * torch.randn_like(truth))


def test_rows_that_are_off_as_a_whole_stand_out_from_elements_that_are():
    truth = rows()
    count, (noise, off) = along_rows(truth, [elementwise(truth, 2e-3), each_by_itself(truth, 1e-3)])
    assert count == 40
    assert noise < 2.5e-4
    assert off == pytest.approx(0.67e-3, rel=0.4)


def test_one_row_that_jumped_says_nothing_of_the_others():
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


@pytest.mark.parametrize("shape", [(100,), (3, 256), (40, 15), ()])
def test_few_or_narrow_rows_are_not_looked_at(shape):
    truth = torch.ones(shape, dtype=torch.float64)
    assert along_rows(truth, [2 * truth]) == (0, [0.0])
