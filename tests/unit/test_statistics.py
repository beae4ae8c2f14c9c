"""Statistics of paired timings: known ranks, and intervals that cover what they promise."""

import math
import random

import pytest

from compilegate.records.statistics import (
    ALPHA,
    FEWEST_ROUNDS,
    false_discovery,
    far_out,
    log_gap,
    paired_speedup,
    shift,
    sign_test_rank,
    t_quantile,
    t_within,
)


@pytest.mark.parametrize(
    ("rounds", "rank"), [(0, 0), (1, 0), (7, 0), (8, 1), (10, 1), (12, 2), (30, 8), (120, 46)]
)
def test_rank_is_the_sign_tests(rounds, rank):
    assert sign_test_rank(rounds) == rank


@pytest.mark.parametrize("rounds", range(FEWEST_ROUNDS, 121))
def test_rank_is_the_largest_that_keeps_the_coverage(rounds):
    def coverage(rank):
        return 1 - 2 * sum(math.comb(rounds, k) for k in range(rank)) / 2**rounds

    rank = sign_test_rank(rounds)
    assert coverage(rank) >= 1 - ALPHA > coverage(rank + 1)


def test_a_laxer_interval_is_narrower():
    assert sign_test_rank(30, alpha=0.5) > sign_test_rank(30)


def test_fewest_rounds_are_the_first_with_an_interval():
    assert sign_test_rank(FEWEST_ROUNDS - 1) == 0 < sign_test_rank(FEWEST_ROUNDS)


def test_speedup_is_the_median_of_paired_ratios_not_the_ratio_of_medians():
    # The machine slows down tenfold midway; each pair still shows twice.
    eager = [2.0] * 15 + [20.0] * 15
    compiled = [1.0] * 15 + [10.0] * 15
    seen = paired_speedup(eager, compiled)
    assert (seen.low, seen.value, seen.high) == pytest.approx((2.0, 2.0, 2.0))


def test_interval_is_made_of_order_statistics():
    ratios = [1 + i / 100 for i in range(30)]
    shuffled = random.Random(0).sample(ratios, len(ratios))
    seen = paired_speedup(shuffled, [1.0] * 30)
    assert seen.low == pytest.approx(ratios[8 - 1])
    assert seen.high == pytest.approx(ratios[-8])
    assert seen.value == pytest.approx(math.sqrt(ratios[14] * ratios[15]))


def test_eight_rounds_give_the_widest_interval_there_is():
    ratios = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    seen = paired_speedup(ratios, [1.0] * 8)
    assert (seen.low, seen.high) == pytest.approx((1.0, 8.0))


def test_swapping_the_sides_inverts_the_speedup():
    draw = random.Random(1)
    eager = [draw.uniform(1, 3) for _ in range(31)]
    compiled = [draw.uniform(1, 2) for _ in range(31)]
    there, back = paired_speedup(eager, compiled), paired_speedup(compiled, eager)
    assert back.value == pytest.approx(1 / there.value)
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


@pytest.mark.parametrize("rounds", [8, 30])
def test_interval_covers_the_truth_under_drift_and_spikes(rounds):
    draw = random.Random(20)
    truth, trials, hits = 1.3, 2000, 0
    for _ in range(trials):
        drift = draw.uniform(-0.3, 0.3)
        eager, compiled = [], []
        for i in range(rounds):
            common = math.exp(drift * i / rounds)
            noise = [draw.gauss(0, 0.05) + 0.5 * (draw.random() < 0.1) for _ in range(2)]
            eager.append(truth * common * math.exp(noise[0]))
            compiled.append(common * math.exp(noise[1]))
        seen = paired_speedup(eager, compiled)
        hits += seen.low <= truth <= seen.high
    # 1 - ALPHA = 99%; below 98.4% lie less than one in a hundred simulations of a true 99%.
    assert hits / trials >= 0.984


def test_sides_of_different_length_are_refused():
    with pytest.raises(ValueError, match="9 eager rounds against 8 compiled"):
        paired_speedup([1.0] * 9, [1.0] * 8)


@pytest.mark.parametrize("rounds", [0, 7])
def test_too_few_rounds_are_refused(rounds):
    with pytest.raises(ValueError, match=f"{rounds} rounds are too few: at least 8"):
        paired_speedup([1.0] * rounds, [1.0] * rounds)


# Across processes. The quantiles are those of printed tables.


@pytest.mark.parametrize(
    ("degrees", "coverage", "quantile"),
    [
        (1, 0.95, 12.706),
        (2, 0.95, 4.303),
        (3, 0.95, 3.182),
        (4, 0.95, 2.776),
        (4, 0.99, 4.604),
        (5, 0.90, 2.015),
        (9, 0.95, 2.262),
        (10, 0.99, 3.169),
        (30, 0.95, 2.042),
        (120, 0.95, 1.980),
    ],
)
def test_t_quantiles_are_the_tables(degrees, coverage, quantile):
    assert t_quantile(coverage, degrees) == pytest.approx(quantile, abs=6e-4)


@pytest.mark.parametrize("degrees", [*range(1, 12), 30, 101])
@pytest.mark.parametrize("t", [0.1, 1.0, 2.5, 12.0])
def test_t_within_is_the_integral_of_the_density(t, degrees):
    log_gammas = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    constant = math.exp(log_gammas) / math.sqrt(degrees * math.pi)
    steps = 4000  # Simpson's rule
    weights = [1, *([4, 2] * (steps // 2 - 1)), 4, 1]
    density = [
        (1 + (i / steps * t) ** 2 / degrees) ** (-(degrees + 1) / 2) for i in range(steps + 1)
    ]
    area = constant * t / steps / 3 * sum(w * d for w, d in zip(weights, density, strict=True))
    assert t_within(t, degrees) == pytest.approx(2 * area, abs=1e-9)


def test_t_is_bounded():
    assert t_within(0.0, 4) == 0.0
    assert t_within(math.inf, 4) == pytest.approx(1.0)


def test_a_shift_is_the_textbooks():
    seen = shift([-0.05, -0.07, -0.06, -0.04, -0.08])
    assert seen.mean == pytest.approx(-0.06)
    error = math.sqrt(0.00025 / 5)
    assert (seen.low, seen.high) == pytest.approx(
        (-0.06 - 2.7764 * error, -0.06 + 2.7764 * error), rel=1e-4
    )
    assert seen.p_below == pytest.approx(0.000529, abs=1e-6)  # t = 8.485, 4 degrees
    assert shift([0.05, 0.07, 0.06, 0.04, 0.08]).p_below == pytest.approx(1 - seen.p_below)


@pytest.mark.parametrize(("value", "p_below"), [(-1.0, 0.0), (0.0, 0.5), (1.0, 1.0)])
def test_differences_that_are_all_the_same_leave_no_doubt(value, p_below):
    seen = shift([value] * 3)
    assert (seen.low, seen.mean, seen.high) == (value, value, value)
    assert seen.p_below == p_below


@pytest.mark.parametrize("differences", [[], [0.1]])
def test_a_shift_needs_two_differences(differences):
    with pytest.raises(ValueError, match=f"at least 2 differences, not {len(differences)}"):
        shift(differences)


def test_benjamini_and_hochberg_hold_up_to_the_last_below_the_line():
    # The example of their paper: 15 p values, of which the four smallest hold at 5%.
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    p_values += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000]
    assert false_discovery(p_values) == [True] * 4 + [False] * 11
    assert false_discovery(p_values[::-1]) == [False] * 11 + [True] * 4
    # One above its own line holds where a later one lies below its.
    assert false_discovery([0.04, 0.05]) == [True, True]
    assert false_discovery([0.04, 0.06]) == [False, False]
    assert false_discovery([]) == []


def test_the_outer_fence_is_tukeys():
    assert far_out([1, 2, 3, 4, 5]) == 4 + 3 * 2
    assert far_out([2.0, 2.0]) == 2.0


def test_samples_a_tenth_apart_are_that_far_apart_in_logarithms():
    ours = [1.0, 1.02, 0.98]
    gap, error = log_gap(ours, [1.1 * value for value in ours])
    assert gap == pytest.approx(math.log(1.1))
    assert error == pytest.approx(0.02 * math.sqrt(2 / 3), rel=1e-3)
    assert log_gap(ours, ours)[0] == 0.0
