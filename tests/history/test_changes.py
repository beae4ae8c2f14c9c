"""Changes in simulated nights: what was planted is reported, and healthy nights are not."""

import dataclasses
import functools
import importlib.util
import math

import pytest

from compilegate.history import changes, nights
from compilegate.history.figures import FIGURES, Reading
from tests.history.simulated_nights import calendar, drift, recorded, simulate, spike, step, until

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("otava") is None,
    reason="needs Apache Otava: pip install apache-otava",
)

SPEED = ("speed",)


def found(series, night=None):
    """The changes of the mean and of single cases, after a night."""
    here = series if night is None else until(series, night)
    trends = changes.trends(here, functools.cache(nights.environment_changed))
    mean = [change for t in trends for change in t.changes if not t.series.case]
    return mean, {t.series.case: t.changes for t in trends if t.series.case and t.changes}


def of_one(values, figure="peak memory", changed_at=None):
    """The changes of one series with these values."""
    one = dataclasses.replace(
        recorded()[0],
        figure=FIGURES[figure],
        nights=calendar(len(values), changed_at),
        readings=[Reading(value) for value in values],
    )
    return changes.trend(one, 1e-5, nights.environment_changed)


def test_a_step_of_three_percent_is_reported_within_two_nights():
    (change,), _ = found(simulate(0, 42, figures=SPEED, plant=step(-0.03, 40, "speed")))
    assert change.at == 40
    assert change.is_worse
    assert change.share == pytest.approx(-0.03, abs=0.015)


def test_a_step_of_one_percent_is_reported_within_ten_nights():
    (change,), _ = found(simulate(0, 50, figures=SPEED, plant=step(-0.01, 40, "speed")))
    assert abs(change.at - 40) <= 2
    assert change.is_worse


def test_a_drift_is_reported_while_it_goes_on():
    mean, _ = found(simulate(2, 55, figures=SPEED, plant=drift(-0.05, 40, 20, "speed")))
    assert any(change.is_worse for change in mean)


def test_one_environment_has_no_false_alarm():
    series = simulate(3, 60)
    for night in (20, 40, 59):
        assert found(series, night) == ([], {})


@pytest.mark.parametrize("last", [40, 41, 59])
def test_a_single_night_that_is_far_out_is_no_change(last):
    planted = spike(0.3, 40, "peak memory")
    assert found(simulate(4, 60, figures=("peak memory",), plant=planted), last) == ([], {})


def test_a_change_of_one_case_is_the_change_of_this_case():
    planted = step(0.1, 40, "peak memory", cases={3})
    _, cases = found(simulate(5, 42, figures=("peak memory",), plant=planted))
    ((change,),) = cases.values()
    assert (change.at, change.is_worse) == (40, True)


def test_what_became_better_is_not_worse():
    planted = step(0.05, 40, "speed")
    (change,), _ = found(simulate(6, 45, figures=SPEED, plant=planted))
    assert not change.is_worse


def test_a_change_falls_on_the_night_of_a_new_environment():
    """Triton changes on night 41, and noise hides on which of two nights the figure changed."""
    values = [1.0, 1.04] * 20 + [1.055] + [1.1, 1.06] * 5
    (caused,) = of_one(values, "compiled time", changed_at=41).changes
    (plain,) = of_one(values, "compiled time").changes
    assert (caused.at, caused.cause) == (41, "triton 3.6 → 3.7")
    assert (plain.at, plain.cause) == (40, "")


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([0] * 10 + [1], [10]),  # a count has no noise, so one night suffices
        ([0] * 10 + [1, 1, 1], [10]),
        ([0] * 10 + [1, 0, 0], []),
        ([2, 1, 2, 1, 2, 1, 2], []),
        ([0, 1], []),
    ],
)
def test_a_count_changes_where_it_leaves_what_it_was(counts, expected):
    trend = of_one(counts, "graph breaks")
    assert [change.at for change in trend.changes] == expected


@pytest.mark.parametrize("last", [3, 2], ids=["it comes back", "it falls below"])
def test_a_change_of_a_count_has_the_counts_of_its_nights(last):
    (change,) = of_one([3] * 5 + [5, 5, last], "graph breaks").changes
    assert (change.at, change.before, change.after, change.is_worse) == (5, 3, 5, True)


def test_from_zero_on_a_change_has_no_share():
    (change,) = of_one([0] * 5 + [2] * 3, "recompilations").changes
    assert change.share == math.inf
    assert change.is_worse


def test_few_nights_judge_nothing():
    assert not of_one([1.0] * 7).is_judged
    assert of_one([1.0] * 8).is_judged
    assert of_one([1.0] * 6 + [2.0] * 2).changes
    assert not of_one([1.0] * 5 + [2.0] * 2).changes
