"""Errors that grew beyond noise are reported; eager's own luck and earlier errors are not."""

import pytest

from compilegate.runs.slim import slim_observation
from compilegate.upgrade.error_growth import error_changes
from tests.unit.making import FLOAT32_NOISE, make_call, make_checked, make_error, make_observation

NAN = float("nan")


def digest(*errors, group="outputs", calls=1):
    call = make_call(**{group: make_checked(*errors)})
    return slim_observation(make_observation(calls=(call,) * calls))


def further(before, now, *, half=False):
    return error_changes(before, now, half=half).further


def grown(before, now, *, half=False):
    found = further(digest(before), digest(now), half=half)
    return [growth.figure for growths in found.values() for growth in growths]


def test_an_equal_error_has_not_grown():
    assert grown(make_error(), make_error()) == []


@pytest.mark.parametrize(
    ("changed", "figure"),
    [
        ({"compiled_rms": 1e-5, "compiled_max": 4e-5}, "root mean square error"),
        ({"compiled_rms": NAN}, "root mean square error"),
        ({"compiled_max": 1e-4}, "largest error"),
        ({"compiled_max": NAN}, "largest error"),
        ({"compiled_projection": 1e-5}, "error of scale"),
        ({"compiled_projection": -1e-5}, "error of scale"),
    ],
)
def test_each_figure_that_grew_is_reported(changed, figure):
    assert grown(make_error(), make_error(**changed)) == [figure]
    assert grown(make_error(**changed), make_error(**changed)) == []
    assert grown(make_error(**changed), make_error()) == []


@pytest.mark.parametrize("factor", [1.5, 1.9])
def test_within_twice_the_noise_is_no_difference(factor):
    assert grown(make_error(), make_error(compiled_rms=factor * FLOAT32_NOISE)) == []


def test_what_was_off_before_may_stay_off():
    off = {"compiled_rms": 1e-4, "compiled_max": 1e-3}
    more = {"compiled_rms": 1.5e-4, "compiled_max": 2e-3}
    assert grown(make_error(**off), make_error(**more)) == []
    assert grown(make_error(**off), make_error(compiled_rms=3e-4, compiled_max=3e-3)) == [
        "root mean square error"
    ]


@pytest.mark.parametrize("side", ["before", "now"])
def test_the_noise_of_either_run_counts(side):
    noisy = {"eager_rms": 1e-4, "eager_max": 1e-3}
    now = {"compiled_rms": 1.5e-4, "compiled_max": 1e-3}
    before = make_error(**noisy) if side == "before" else make_error()
    after = make_error(**now) if side == "before" else make_error(**now, **noisy)
    assert grown(before, after) == []
    assert grown(make_error(), make_error(**now)) == ["root mean square error"]


def test_a_small_tensor_gets_the_noise_of_its_group():
    lucky = make_error("bias", eager_rms=0.0, eager_max=0.0, compiled_rms=0.0, compiled_max=0.0)
    now = make_error("bias", eager_rms=0.0, eager_max=0.0, compiled_rms=6e-7, compiled_max=6e-7)
    others = [make_error(f"weight {i}", eager_rms=4e-7, eager_max=2e-6) for i in range(5)]
    assert further(digest(lucky, *others), digest(now, *others)) == {}
    alone = [make_error(f"weight {i}", eager_rms=1e-9) for i in range(5)]
    found = further(digest(lucky, *alone), digest(now, *alone))
    assert [growth.name for growth in found["outputs"]] == ["bias"]


def test_half_precision_has_narrower_bounds():
    before = make_error(dtype="bfloat16", eager_rms=4e-3, compiled_rms=4e-3, eager_max=2e-2)
    now = make_error(dtype="bfloat16", eager_rms=4e-3, compiled_rms=7.9e-3, eager_max=2e-2)
    assert grown(before, now, half=True) == ["root mean square error"]
    assert grown(before, now) == []


@pytest.mark.parametrize(
    "hidden", [{"scale": 0.0}, {"eager_rms": 0.5}, {"has_reference": False}, {"jumps": True}]
)
@pytest.mark.parametrize("side", ["before", "now"])
def test_tensors_that_cannot_show_it_are_left_alone(hidden, side):
    worse = {"compiled_rms": 7e-7, "compiled_max": 7e-7}
    assert grown(make_error(eager_max=1e-7), make_error(**worse)) == ["root mean square error"]
    before = make_error(eager_max=1e-7, **(hidden if side == "before" else {}))
    assert grown(before, make_error(**worse, **(hidden if side == "now" else {}))) == []


def test_buffers_have_wider_floors():
    worse = {"compiled_rms": 3e-6, "compiled_max": 3e-6}
    assert grown(make_error("output"), make_error("output", **worse)) == ["root mean square error"]
    assert grown(make_error("buffer mean"), make_error("buffer mean", **worse)) == []


def test_tensors_are_matched_by_name_in_whatever_order():
    before = digest(make_error("a", compiled_rms=1e-3, compiled_max=1e-2), make_error("b"))
    now = digest(make_error("b"), make_error("a", compiled_rms=1e-3, compiled_max=1e-2))
    assert further(before, now) == {}
    swapped = digest(make_error("b", compiled_rms=1e-3), make_error("a"), make_error("new"))
    found = further(before, swapped)
    assert [growth.name for growth in found["outputs"]] == ["b"]


def test_every_group_and_call_is_looked_at():
    for group in ("outputs", "gradients", "state"):
        before = digest(make_error(), group=group, calls=2)
        now = digest(make_error(compiled_rms=1e-3), group=group, calls=2)
        found = further(before, now)
        assert [growth.call for growth in found[group]] == [0, 1]


def test_a_growth_shows_both_errors_and_the_bound():
    found = further(digest(make_error()), digest(make_error(compiled_rms=1e-5)))
    (growth,) = found["outputs"]
    assert str(growth) == (
        "output at call 1: root mean square error 1e-07 → 1e-05 of its scale "
        "(eager 1e-07, allowed 6.77e-07)"
    )
