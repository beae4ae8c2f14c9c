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
#: Rounds that are made if there is time, and that are made at most.
FEW_ROUNDS, MOST_ROUNDS = 30, 120
#: Where others take more of the processor than this, threads and compilers wait for each other, and
#: being slow says nothing.
BUSY = 0.2
#: An operation that many threads share waits for the slowest one: so little of a core slows it.
_CORES_OF_OTHERS = 0.5


def is_busy(share: float, threads: int = 1) -> bool:
    """Whether others took so much of the processor that being slow says nothing.

    Args:
        share: What others took of all cores, between 0 and 1.
        threads: How many threads share an operation, at most one a core.
    """
    return share > min(BUSY, _CORES_OF_OTHERS / max(threads, 1))


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval that contains the true value with probability 1 - ALPHA."""

    value: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """The ratio that is estimated, with its interval."""
        return f"{self.value:.2f}× [{self.low:.2f}, {self.high:.2f}]"


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


def are_enough(
    eager_ns: Sequence[float], compiled_ns: Sequence[float], threshold: float, *, late: bool
) -> bool:
    """Whether a speedup needs no further rounds: its interval is clear of a threshold.

    Args:
        eager_ns: Nanoseconds a call of eager, by round.
        compiled_ns: Of compiled code.
        threshold: The speedup to decide about.
        late: Whether the time for rounds is used up.
    """
    rounds = len(eager_ns)
    if rounds >= MOST_ROUNDS or (late and rounds >= FEWEST_ROUNDS):
        return True
    if rounds < FEW_ROUNDS:
        return False
    seen = paired_speedup(eager_ns, compiled_ns)
    return not seen.low <= threshold <= seen.high


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


# Across processes: https://en.wikipedia.org/wiki/Student%27s_t-distribution, and Abramowitz and
# Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4, which are exact for whole degrees.


def t_within(t: float, degrees: int) -> float:
    """Probability that a Student t variable lies within ±t.

    Args:
        t: At least 0; infinity is 1.
        degrees: Degrees of freedom, at least 1.
    """
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    if degrees % 2 == 0:
        term = total = 1.0
        for k in range(1, degrees // 2):
            term *= (2 * k - 1) / (2 * k) * cosine**2
            total += term
        return sine * total
    total, term = 0.0, cosine
    for k in range(1, (degrees - 1) // 2 + 1):
        total += term
        term *= 2 * k / (2 * k + 1) * cosine**2
    return 2 / math.pi * (angle + sine * total)


def t_quantile(coverage: float, degrees: int) -> float:
    """The t for which a Student t variable lies within ±t with this probability.

    Args:
        coverage: Between 0 and 1.
        degrees: Degrees of freedom, at least 1.
    """
    low, high = 0.0, 1.0
    while t_within(high, degrees) < coverage:
        high *= 2
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, degrees) < coverage else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Shift:
    """The mean of differences between processes.

    Attributes:
        mean: Their mean.
        low: Lower end of its t interval.
        high: Upper end.
        p_below: Of the one-sided t test: the probability of a mean this far below zero, or farther,
            where there is no shift.
        count: How many differences there were.
    """

    mean: float
    low: float
    high: float
    p_below: float
    count: int


def log_gap(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """How far apart the means of two samples' logarithms are, and the standard error of that.

    Args:
        ours: Positive numbers, at least two.
        theirs: The other sample, also at least two.
    """
    logs = [[math.log(value) for value in side] for side in (ours, theirs)]
    gap = abs(statistics.mean(logs[0]) - statistics.mean(logs[1]))
    return gap, math.sqrt(sum(statistics.variance(side) / len(side) for side in logs))


def shift(differences: Sequence[float], coverage: float = 0.95) -> Shift:
    """Estimate the mean of differences that are independent and about normal.

    Args:
        differences: At least two.
        coverage: Of the interval.

    Raises:
        ValueError: Fewer than two differences.
    """
    count = len(differences)
    if count < 2:
        raise ValueError(f"an interval needs at least 2 differences, not {count}")
    mean = statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(count)
    half = t_quantile(coverage, count - 1) * error
    t = abs(mean) / error if error else math.inf if mean else 0.0
    tail = (1 - t_within(t, count - 1)) / 2
    p_below = tail if mean < 0 else 1 - tail
    return Shift(mean=mean, low=mean - half, high=mean + half, p_below=p_below, count=count)


def false_discovery(p_values: Sequence[float], rate: float = 0.05) -> list[bool]:
    """Return which of many tests are significant at a false discovery rate of ``rate``.

    Benjamini and Hochberg (1995): with the p values in ascending order, all up to the last k for
    which p_(k) ≤ k/m · rate.
    """
    ascending = sorted(p_values)
    limits = [p for k, p in enumerate(ascending, start=1) if p <= k / len(ascending) * rate]
    limit = max(limits, default=-1.0)
    return [p <= limit for p in p_values]


def far_out(values: Sequence[float]) -> float:
    """Tukey's outer fence, Q3 + 3·IQR: above it a value is far out among these.

    Raises:
        ValueError: Fewer than two values.
    """
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third + 3 * (third - first)
