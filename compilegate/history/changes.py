"""When a figure changed for good: change points by Otava, and a test of the last nights.

Otava needs many nights after a change. The test of the last nights needs two: both must lie beyond
what the nights before, and the rounds of each night, make likely. So no single night is a change.
``docs/measurements/history.md`` has the rates of what is found, and of false alarms.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from compilegate.history import change_points
from compilegate.history.nights import Night, Series
from compilegate.records.statistics import t_within

#: The probability of one false alarm or more in this many nights of one environment: of the means
#: over all cases, and of single cases. Noise of single cases has heavier tails than the tests know.
FALSE_ALARMS_OF_MEANS, FALSE_ALARMS_OF_CASES, NIGHTS = 0.01, 0.0005, 100
#: The fewest nights before a change of a figure with noise, and before a change of a count.
FEWEST_BEFORE, FEWEST_COUNTS = 6, 3
#: As many last nights as are tested together.
WINDOWS = (2, 3, 5, 10, 20)
#: One night, and one more of each 30, may be far out without making a figure a noisy one.
_NIGHTS_FORGIVEN = 30
#: A night counts for less where its rounds vary this much more than usual: a little more is chance.
_UNUSUAL = 1.5
#: The fewest nights of a level.
SHORTEST = 2
#: Otava chooses the night for which the difference is largest, so the test there must be stricter.
_CHOICE = 10
#: A change of the environment names its night before anybody looks at figures, and is rare. So the
#: test of what follows that night may be wrong more often, by this factor.
_CAUSED = 10
#: What the sum of squares, in variances of one night, may be larger by at the true night of a
#: change than at the likeliest one, in 19 of 20 cases.
_DOUBT = 3.84
#: The share of healthy nights within a band.
_BAND = 0.99

#: Returns what changed in the environment from one night to the next; empty if nothing.
Causes = Callable[[Night, Night], str]


@dataclass(frozen=True)
class Change:
    """A change of one series that held.

    Attributes:
        at: The index of the first night after it.
        before: The level before it; of a count, its value on the night before.
        after: The level after it; of a count, its value on that night.
        is_worse: Whether it is for the worse.
        cause: What changed in the environment with it; empty if nothing that is recorded.
    """

    at: int
    before: float
    after: float
    is_worse: bool
    cause: str = ""

    @property
    def share(self) -> float:
        """The change, as a share of the level before; infinite where that is zero."""
        return self.after / self.before - 1 if self.before else math.inf


@dataclass(frozen=True)
class Level:
    """The nights between two changes.

    Attributes:
        start: The index of the first night.
        end: The index after the last.
        value: Their mean; of a count, the last value.
        low: Where a healthy night ends, below.
        high: The same above.
    """

    start: int
    end: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Trend:
    """A series with what is known of its changes.

    Attributes:
        series: The readings.
        changes: In the order of time.
        levels: One more than changes.
        is_judged: Whether there were nights enough to see a change.
    """

    series: Series
    changes: tuple[Change, ...] = ()
    levels: tuple[Level, ...] = field(default=())
    is_judged: bool = False


@dataclass(frozen=True)
class _Sample:
    """The levels of a series, and the variance of each night relative to the others."""

    levels: Sequence[float]
    weights: Sequence[float]
    spread: float

    def part(self, start: int, end: int) -> _Sample:
        return _Sample(self.levels[start:end], self.weights[start:end], self.spread)

    @property
    def mean(self) -> float:
        weighted = (w * level for w, level in zip(self.weights, self.levels, strict=True))
        return sum(weighted) / sum(self.weights)


def trend(series: Series, false_alarms: float, causes: Causes) -> Trend:
    """Find the changes of a series.

    Args:
        series: The readings.
        false_alarms: The probability of a false alarm on one night.
        causes: What changed in the environment from one night to the next.
    """
    levels = [series.figure.level(reading.value) for reading in series.readings]
    if series.figure.is_exact:
        starts = [0, *_count_changes(levels)]
        fewest = FEWEST_COUNTS
    else:
        starts = [0, *_noisy_changes(series, levels, false_alarms, causes)]
        fewest = FEWEST_BEFORE + SHORTEST - 1
    ends = [*starts[1:], len(levels)]
    parts = [_level(series, levels, start, end) for start, end in zip(starts, ends, strict=True)]
    changes = [_change(series, levels, *two, causes) for two in itertools.pairwise(parts)]
    return Trend(series, tuple(changes), tuple(parts), is_judged=len(levels) > fewest)


def _change(
    series: Series, levels: Sequence[float], before: Level, after: Level, causes: Causes
) -> Change:
    at = after.start
    cause = causes(series.nights[at - 1], series.nights[at])
    if series.figure.is_exact:  # a level of a count may hold several values
        was, now = levels[at - 1], levels[at]
    else:
        was, now = before.value, after.value
    return Change(at, was, now, (now < was) == series.figure.more_is_better, cause)


def _level(series: Series, levels: Sequence[float], start: int, end: int) -> Level:
    figure = series.figure
    if figure.is_exact:
        part = levels[start:end]
        return Level(start, end, part[-1], min(part), max(part))
    sample = _sample(series, levels).part(start, end)
    mean = _settled(sample)[0]
    half = statistics.NormalDist().inv_cdf((1 + _BAND) / 2) * _deviation(sample, figure.least)
    return Level(start, end, *map(figure.value, (mean, mean - half, mean + half)))


def _count_changes(counts: Sequence[float]) -> list[int]:
    """Return where a count leaves what it was on all nights of its level.

    It must still be elsewhere on the next night. The last night counts, too, since a count has no
    noise.
    """
    found: list[int] = []
    for at in range(1, len(counts)):
        before = counts[found[-1] if found else 0 : at]
        is_outside = not min(before) <= counts[at] <= max(before)
        holds = all(not min(before) <= count <= max(before) for count in counts[at : at + SHORTEST])
        if len(before) >= FEWEST_COUNTS and is_outside and holds:
            found.append(at)
    return found


def _noisy_changes(
    series: Series, levels: Sequence[float], false_alarms: float, causes: Causes
) -> list[int]:
    figure, sample = series.figure, _sample(series, levels)

    def is_change(start: int, at: int, end: int, p_value: float) -> bool:
        if at - start < SHORTEST or end - at < SHORTEST:
            return False
        before, after = sample.part(start, at), sample.part(at, end)
        return _significance(before, after, figure.least) < p_value

    strict = false_alarms / _CHOICE
    values = [reading.value for reading in series.readings]
    found: list[int] = []
    points = [0, *change_points.change_points(values), len(levels)]
    for at, end in itertools.pairwise(points[1:]):
        start = found[-1] if found else 0
        if at - start >= FEWEST_BEFORE and is_change(start, at, end, strict):
            found.append(_located(series, sample, (start, at, end), causes))
    start, end = found[-1] if found else 0, len(levels)
    for at in range(end - SHORTEST, max(start + FEWEST_BEFORE, end - WINDOWS[-1]) - 1, -1):
        is_caused = bool(causes(series.nights[at - 1], series.nights[at]))
        allowed = false_alarms / len(WINDOWS) * (_CAUSED if is_caused else 1)
        if (is_caused or end - at in WINDOWS) and is_change(start, at, end, allowed):
            found.append(_located(series, sample, (start, at, end), causes))
            break
    return found


def _sample(series: Series, levels: Sequence[float]) -> _Sample:
    """Weigh the nights of a series: one whose rounds vary far more than usual counts for less."""
    spreads = [reading.spread for reading in series.readings]
    usual = statistics.median(spreads)
    most = _UNUSUAL * usual
    weights = [min((most / spread) ** 2, 1.0) if spread else 1.0 for spread in spreads]
    return _Sample(levels, weights if usual else [1.0] * len(levels), usual)


def _settled(sample: _Sample) -> tuple[float, float]:
    """Return the mean of nights, and the standard deviation of one of full weight.

    The farthest night, of many nights the farthest few, is taken for as far as the next one: it may
    be a night on a busy machine. If more are far out, the figure is like that.
    """
    middle = statistics.median(sample.levels)
    roots = [math.sqrt(weight) for weight in sample.weights]
    nights = sorted(
        (root * abs(level - middle), root, math.copysign(1.0, level - middle))
        for level, root in zip(sample.levels, roots, strict=True)
    )
    forgiven = 1 + len(nights) // _NIGHTS_FORGIVEN
    edge = nights[-1 - forgiven][0] if forgiven < len(nights) else nights[0][0]
    gaps = [(min(gap, edge) * sign, root) for gap, root, sign in nights]
    shift = sum(gap * root for gap, root in gaps) / sum(sample.weights)
    squares = sum((gap - root * shift) ** 2 for gap, root in gaps)
    variance = squares / max(len(gaps) - 1, 1) / _winsorized_variance(forgiven / len(gaps))
    return middle + shift, max(math.sqrt(variance), edge / 2)


def _deviation(sample: _Sample, least: float) -> float:
    """Return the standard deviation of a night of full weight.

    Nights cannot vary less than the rounds of a night do, nor can they be seen to vary less than a
    change that matters.
    """
    return max(_settled(sample)[1], sample.spread, least / 4)


@functools.cache
def _winsorized_variance(share: float) -> float:
    """Return the variance of a normal variable whose farthest share is moved to its edge."""
    if share >= 1:
        return 1.0
    normal = statistics.NormalDist()
    edge = normal.inv_cdf(1 - share / 2)
    return (1 - share) - 2 * edge * normal.pdf(edge) + share * edge**2


def _significance(before: _Sample, after: _Sample, least: float) -> float:
    """Return the probability of what follows, or more, if nothing changed.

    The gap is that of all nights but the one that differs most, so that no single night decides; of
    two nights it is that of the nearer one. The mean of all nights is at least as far away, so its
    t test bounds the probability.
    """
    middle, deviation = _settled(before)[0], _deviation(before, least)
    sign = 1.0 if after.mean > middle else -1.0
    nights = sorted(
        zip(after.levels, after.weights, strict=True), key=lambda night: sign * night[0]
    )[:-1]
    total = sum(weight for _, weight in nights)
    gap = sign * (sum(level * weight for level, weight in nights) / total - middle)
    if gap < least:
        return 1.0
    error = deviation * math.sqrt(1 / sum(after.weights) + 1 / sum(before.weights))
    return 1 - t_within(gap / error, len(before.levels) - 1)


def _located(series: Series, sample: _Sample, around: tuple[int, int, int], causes: Causes) -> int:
    """Return the first night after a change.

    It is the night that divides the nights best. If the environment changed on another night which
    the figures do not rule out, it is that one.

    Args:
        series: The readings.
        sample: Their levels.
        around: The first night before the change, a night near it, and the end of what follows.
        causes: What changed in the environment from one night to the next.
    """
    start, near, end = around
    first = max(start + SHORTEST, near - SHORTEST - 2)
    candidates = range(first, min(near + SHORTEST + 2, end - SHORTEST) + 1)
    variance = _deviation(sample.part(start, near), series.figure.least) ** 2
    squares = {
        at: (_squares(sample.part(start, at)) + _squares(sample.part(at, end))) / variance
        for at in candidates
    }
    best = min(squares, key=lambda at: squares[at])
    likely = [at for at in candidates if squares[at] <= squares[best] + _DOUBT]
    caused = [at for at in likely if causes(series.nights[at - 1], series.nights[at])]
    return min(caused, key=lambda at: squares[at]) if caused else best


def _squares(part: _Sample) -> float:
    mean = part.mean
    pairs = zip(part.levels, part.weights, strict=True)
    return sum(weight * (level - mean) ** 2 for level, weight in pairs)


def trends(series: Sequence[Series], causes: Causes) -> list[Trend]:
    """Find the changes of many series.

    The means over all cases may have most of the false alarms: they are few, and show what many
    cases share.

    Args:
        series: The readings.
        causes: What changed in the environment from one night to the next.
    """
    noisy = [not one.case for one in series if not one.figure.is_exact]
    of_means, of_cases = (
        allowed / NIGHTS / max(noisy.count(is_mean), 1)
        for is_mean, allowed in ((True, FALSE_ALARMS_OF_MEANS), (False, FALSE_ALARMS_OF_CASES))
    )
    return [trend(one, of_cases if one.case else of_means, causes) for one in series]
