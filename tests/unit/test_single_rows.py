"""The error of single rows in half precision, over all calls together."""

import pytest
import torch

from compilegate.judging.single_rows import checks_of_rows
from compilegate.judging.tensors import examine
from compilegate.observe.compare.rows_and_columns import along_rows
from tests.unit.making import make_call, make_checked, make_error, make_observation

HALF_ID = "resnet18-cpu-infer-bf16-default-static"


def of_rows(compiled, eager=2e-4, rows=50, **changed):
    """Return an observation of two calls whose rows have these errors."""
    error = make_error(
        dtype="bfloat16",
        eager_max=0.01,
        eager_rms=2e-3,
        compiled_max=0.01,
        compiled_rms=2e-3,
        **{"rows": rows, "eager_rows": eager, "compiled_rows": compiled} | changed,
    )
    calls = tuple(make_call(outputs=make_checked(error)) for _ in range(2))
    return make_observation(case=HALF_ID, calls=calls)


def test_rows_that_are_each_too_large_or_too_small_are_out_of_bounds():
    (text,) = examine(of_rows(1.1e-3), "outputs").complaints
    assert text == (
        "output (bfloat16): single rows are 0.11% too large or too small "
        "(eager 0.02%, allowed 0.0448%)"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"compiled": 3e-4},
        {"compiled": 1.1e-3, "rows": 0},  # not taken
        {"compiled": 5e-4, "rows": 6},  # of few rows, chance
        {"compiled": 7e-4, "jumps": True},
        {"compiled": 6e-5, "eager": 0.0},  # as much as rounding leaves
    ],
)
def test_rows_about_as_far_off_as_eagers_are_within_bounds(changed):
    assert examine(of_rows(**changed), "outputs").complaints == ()


@pytest.mark.parametrize(
    ("compiled", "changed", "passes"),
    [
        (1.5e-3, {}, True),
        (4e-3, {}, False),
        (4e-3, {"jumps": True}, False),
        (3e-3, {"rows": 4}, True),  # of few rows, chance
    ],
)
def test_one_row_in_fifty_is_compared_with_eagers(compiled, changed, passes):
    high = {"eager_high_rows": 8e-4, "compiled_high_rows": compiled}
    complaints = examine(of_rows(2e-4, **high, **changed), "outputs").complaints
    assert (complaints == ()) is passes
    assert passes or complaints[0].startswith("output (bfloat16): some rows are 0.4% too large")


def test_rows_are_compared_with_eagers_over_all_calls():
    one, other = of_rows(9e-4).calls[0], of_rows(1e-5).calls[0]
    mixed = make_observation(case=HALF_ID, calls=(one, other, other, other))
    assert examine(mixed, "outputs").complaints == ()


def observed(rows, seed, off=0.0):
    """Return an observation of one tensor of rows, each of four elements that round on both sides.

    Args:
        rows: How many rows it has.
        seed: Of its elements and errors, which are independent.
        off: By which share each row of compiled code is too large or too small.
    """
    draw = torch.Generator().manual_seed(seed)
    truth, *noise = torch.randn(3, rows, 4, generator=draw, dtype=torch.float64)
    scales = 1 + off * (torch.arange(rows)[:, None] % 3 - 1)
    eager, compiled = truth * (1 + 3e-3 * noise[0]), truth * scales * (1 + 3e-3 * noise[1])
    examined, medians, highs = along_rows(truth, [eager, compiled])
    own = float((eager - truth).norm() / truth.norm())
    error = make_error(
        dtype="bfloat16",
        numel=truth.numel(),
        eager_rms=own,
        eager_own=own,
        rows=examined,
        eager_rows=medians[0],
        compiled_rows=medians[1],
        eager_high_rows=highs[0],
        compiled_high_rows=highs[1],
    )
    return make_observation(case=HALF_ID, calls=(make_call(outputs=make_checked(error)),))


@pytest.mark.parametrize("rows", [4, 5, 8, 16, 32, 63])
def test_few_rows_whose_elements_round_independently_are_hardly_ever_out_of_bounds(rows):
    shares = [
        max(check.share for _, check in checks_of_rows(observed(rows, seed), "outputs"))
        for seed in range(400)
    ]
    assert sum(share > 1.0 for share in shares) <= 4


@pytest.mark.parametrize("rows", [4, 8, 32, 256])
def test_rows_that_are_each_off_by_more_than_rounding_are_out_of_bounds(rows):
    for seed in range(20):
        seen = [check.share for _, check in checks_of_rows(observed(rows, seed, 0.06), "outputs")]
        assert max(seen) > 1.0
