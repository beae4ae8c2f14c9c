"""Statistics of paired timings: known ranks, and intervals that cover what they promise."""

import math
import random

import pytest

from reports.statistics import ALPHA, FEWEST_ROUNDS, paired_speedup, sign_test_rank


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
