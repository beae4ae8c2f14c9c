"""The rule of random numbers: what chance may do, and what it does not."""

from dataclasses import replace

import pytest

from compilegate.judging.budget import Budget
from compilegate.records.randomness import ShareGap
from compilegate.suites import test_randomness
from tests.unit.making import make_observation, make_randomness


def drawn(**changed):
    return make_observation(draws=True, randomness=make_randomness(**changed))


def test_the_same_statistics_on_both_sides_pass():
    assert test_randomness.rule(drawn(), Budget()).outcome == "passed"


def test_a_case_that_draws_nothing_passes_and_reports_it():
    finding = test_randomness.rule(make_observation(), Budget())
    assert (finding.outcome, finding.summary) == ("passed", "draws no random numbers")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"repeats": 12}, "compiled calls repeat each other: 12 pairs of 24 calls"),
        ({"spreads": (0.0,) * 6}, "spread of the outputs between calls is 0, in eager 0.2"),
        ({"spreads": (0.02, 0.0, 0.02, 0.02, 0.02, 0.02)}, "spread of the outputs between calls"),
        ({"spreads": (0.3, 0.31, 0.29, 0.3, 0.31, 0.29)}, "spread of the outputs between calls"),
        ({"together": (3.9, 4.1, 4.0, 3.9, 4.1, 4.0)}, "joint spread of a batch's rows is 4"),
        ({"alike": (0.02, 0.021, 0.019, 0.02, 0.021, 0.02)}, "similarity of two calls"),
        ({"tails": (1.8, 1.81, 1.79, 1.8, 1.8, 1.81)}, "kurtosis of the outputs' elements is 1.8"),
        ({"mean_gap": 100.0}, "mean over calls is 10.0 times as far from eager's"),
        (
            {"mean_gap": 9.0, "own_gap": 1.2},
            "times as far from eager's as chance explains (allowed 2)",
        ),
        ({"again": 0.9}, "two compiled calls under one seed are 0.9 times as far apart"),
        (
            {"slope": 0.986},
            "backward and forward use different random numbers, or the function has",
        ),
    ],
)
def test_other_statistics_fail_and_are_named(changed, expected):
    finding = test_randomness.rule(drawn(**changed), Budget())
    assert finding.outcome == "failed"
    assert expected in finding.summary


@pytest.mark.parametrize(
    "changed",
    [
        {"repeats": 8},
        {"spreads": (0.2, 0.21, 0.19, 0.22, 0.2, 0.18)},
        {"spreads": (0.2, 0.22, 0.0, 0.2, 0.23, 0.21)},
        {"together": (1.2, 0.8, 1.3, 0.9, 1.1, 0.7)},
        {"alike": (0.012, 0.01, 0.011, 0.009, 0.01, 0.012)},
        {"tails": (3.1, 2.9, 3.0, 3.1, 3.0, 3.0)},
        {"mean_gap": 4.0},
        {"mean_gap": 9.0, "own_gap": 3.0},
        {"again": 0.2},
        {"slope": 1.002},
        {"slope": None},
    ],
)
def test_a_difference_within_chance_passes(changed):
    assert test_randomness.rule(drawn(**changed), Budget()).outcome == "passed"


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [(1109, 1305, "passed"), (1109, 4000, "failed"), (6768, 6768, "passed")],
)
def test_where_few_masks_can_be_drawn_calls_repeat_by_chance(ours, theirs, outcome):
    """Stochastic depth that drops a row in twenty: of 16 rows, often none."""
    seen = make_randomness(repeats=theirs)
    seen = replace(seen, calls=288, eager=replace(seen.eager, repeats=ours))
    finding = test_randomness.rule(make_observation(draws=True, randomness=seen), Budget())
    assert finding.outcome == outcome, finding.summary


def test_likeness_and_tails_are_not_judged_in_runs_without_them():
    seen = make_randomness(alike=(), tails=())
    seen = replace(seen, eager=replace(seen.eager, alike=(), tails=()))
    finding = test_randomness.rule(make_observation(draws=True, randomness=seen), Budget())
    assert finding.outcome == "passed"


@pytest.mark.parametrize(
    ("case", "factor", "outcome"),
    [
        ("tiny-cuda-train-bf16-default-static", 0.8, "passed"),
        ("tiny-cuda-train-bf16-default-static", 0.5, "failed"),
        ("tiny-cuda-train-bf16-default-static", 1.25, "failed"),
        ("tiny-cuda-train-f32-default-static", 0.8, "failed"),
        ("tiny-cpu-train-bf16-default-static", 0.8, "failed"),
    ],
)
def test_eager_alone_may_share_random_numbers_in_half_precision_on_a_gpu(case, factor, outcome):
    eager = (0.01, 0.0101, 0.0099, 0.01, 0.0101, 0.0099)
    seen = make_randomness(alike=tuple(factor * value for value in eager))
    seen = replace(seen, eager=replace(seen.eager, alike=eager))
    made = make_observation(case=case, draws=True, randomness=seen)
    assert test_randomness.rule(made, Budget()).outcome == outcome


@pytest.mark.parametrize(
    ("case", "changed", "outcome"),
    [
        ("tiny-cpu-train-f32-default-static", {}, "failed"),
        ("tiny-cpu-train-f32-default-static", {"errors": 5.0}, "passed"),
        ("tiny-cpu-train-f32-default-static", {"compiled": 0.30005}, "passed"),
        ("tiny-cpu-train-bf16-default-static", {}, "failed"),
        ("tiny-cpu-train-bf16-default-static", {"compiled": 0.304}, "passed"),
    ],
)
def test_a_share_must_be_off_by_more_than_chance_and_rounding(case, changed, outcome):
    share = ShareGap(kind="below", output="output", at=2.0, eager=0.3, compiled=0.32, errors=9.0)
    seen = replace(make_randomness(), shares=(replace(share, **changed),))
    finding = test_randomness.rule(make_observation(case=case, randomness=seen), Budget())
    assert finding.outcome == outcome, finding.summary
    if outcome == "failed":
        assert finding.summary.startswith("output: 0.32 of the elements are below 2, in eager 0.3")


def test_elements_that_share_numbers_in_compiled_code_alone_fail():
    seen = replace(make_randomness(), same_pairs=3)
    finding = test_randomness.rule(make_observation(randomness=seen), Budget())
    assert finding.outcome == "failed"
    assert "3 pairs of elements draw the same random numbers" in finding.summary
