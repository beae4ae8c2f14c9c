"""Statistics of paired timings: pure functions, no torch and no pytest in them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

#: One minus the coverage of an interval.
ALPHA = 0.01
#: The fewest pairs for which the sign test reaches that coverage.
FEWEST_ROUNDS = 8


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval that holds the true value with probability 1 - ALPHA."""

    value: float
    low: float
    high: float


def sign_test_rank(n: int, alpha: float = ALPHA) -> int:
    """Rank ``r`` such that the r-th smallest and r-th largest of ``n`` values enclose the median.

    The largest r with 1 - 2·Σ_{k<r} C(n, k) / 2ⁿ ≥ 1 - alpha, as the sign test has it; 0 where no
    rank reaches that coverage.
    """
    tail, rank = 0.0, 0
    while rank < n // 2:
        tail += math.comb(n, rank) / 2**n
        if 2 * tail > alpha:
            break
        rank += 1
    return rank


def paired_speedup(eager_ns: Sequence[float], compiled_ns: Sequence[float]) -> Interval:
    """How many times faster compiled is than eager: exp(median of ln eager - ln compiled).

    The interval is distribution-free: order statistics of the paired log ratios.

    Args:
        eager_ns: Nanoseconds by round.
        compiled_ns: Nanoseconds of the same rounds.

    Raises:
        ValueError: Fewer than FEWEST_ROUNDS pairs, or sides of different length.
    """
    if len(eager_ns) != len(compiled_ns):
        raise ValueError(f"{len(eager_ns)} eager rounds against {len(compiled_ns)} compiled ones")
    if len(eager_ns) < FEWEST_ROUNDS:
        raise ValueError(f"{len(eager_ns)} rounds are too few: at least {FEWEST_ROUNDS} are needed")
    ratios = sorted(math.log(e / c) for e, c in zip(eager_ns, compiled_ns, strict=True))
    rank = sign_test_rank(len(ratios))
    return Interval(
        value=math.exp(statistics.median(ratios)),
        low=math.exp(ratios[rank - 1]),
        high=math.exp(ratios[-rank]),
    )
