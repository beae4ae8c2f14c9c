"""Simulates nights from the spread of two recorded runs, and says what is reported when.

``h200-live-1`` and ``h200-live-2`` observed 30 cases with one PyTorch on one H200, one after the
other. For each case and figure, their difference is one estimate of how far nights are apart.

    python -m tests.history.simulated_nights detection --histories 20
"""

import argparse
import dataclasses
import functools
import math
import random
import statistics
from pathlib import Path

from compilegate.history import changes, nights
from compilegate.history.figures import Reading

DATA = Path(__file__).parents[1] / "data"
RUNS = [DATA / f"h200-live-{number}.jsonl.gz" for number in (1, 2)]
#: Figures with noise that differ between the two runs.
FIGURES = ("speed", "kernel speed", "compiled time", "compile seconds", "peak memory")
#: What the planted changes of the environment are.
TRITON = {"before": "3.6", "after": "3.7"}


@functools.cache
def recorded():
    """The pairs of readings of each case and figure with noise."""
    series = nights.read(RUNS).series
    return [one for one in series if one.case and len(one.readings) == 2]


def deviation(one):
    """How far apart two nights of a series are, as a standard deviation of one night."""
    first, second = one.readings
    return max(abs(math.log(second.value / first.value)) / math.sqrt(2), first.spread)


def calendar(count, changed_at=None):
    """Nights from 1 October on; Triton changes on one of them, if asked."""
    header = recorded()[0].nights[0].header
    found = []
    for night in range(count):
        new = changed_at is not None and night >= changed_at
        versions = header.environment.versions | {"triton": TRITON["after" if new else "before"]}
        environment = dataclasses.replace(header.environment, versions=versions)
        created = f"2026-{10 + night // 30:02}-{1 + night % 30:02}T02:17:00+00:00"
        again = dataclasses.replace(header, created=created, environment=environment)
        found.append(nights.Night(Path(f"night-{night:03}.jsonl"), again))
    return found


def simulate(seed, count, *, figures=None, plant=None, changed_at=None, pooled=False):
    """Series of many nights.

    Args:
        seed: Of the noise.
        count: How many nights.
        figures: The names of figures; all with noise by default.
        plant: Returns the logarithm of the change of a case on a night, given the number of the
            case, the figure and the night.
        changed_at: The night on which Triton changes.
        pooled: Whether a case has the noise of a case drawn at random each night. Tails are then
            heavier: most nights are quiet, and some are far off.
    """
    draw, dates = random.Random(seed), calendar(count, changed_at)
    chosen = [
        one
        for one in recorded()
        if not one.figure.is_exact and (figures is None or one.figure.name in figures)
    ]
    pools = {}
    for one in chosen:
        pools.setdefault(one.figure.name, []).append(deviation(one))
    numbers = {case: number for number, case in enumerate(dict.fromkeys(s.case for s in chosen))}
    found = []
    for one in chosen:
        readings = []
        for night in range(count):
            spread = draw.choice(pools[one.figure.name]) if pooled else deviation(one)
            planted = plant(numbers[one.case], one.figure.name, night) if plant else 0.0
            value = one.readings[0].value * math.exp(draw.gauss(0, spread) + planted)
            own = one.readings[0].spread * math.exp(draw.gauss(0, 0.2))
            readings.append(Reading(value, own))
        found.append(dataclasses.replace(one, nights=dates, readings=readings))
    return [*found, *nights.common(found)]


def until(series, night):
    """The series as they were on the morning after a night."""
    return [
        dataclasses.replace(one, nights=one.nights[: night + 1], readings=one.readings[: night + 1])
        for one in series
    ]


def first_reports(series, first=7, last=None):
    """On which night each change is reported first: by case, figure and whether it is worse."""
    causes = functools.cache(nights.environment_changed)
    found = {}
    count = len(series[0].nights)
    for night in range(first, last or count):
        for trend in changes.trends(until(series, night), causes):
            for change in trend.changes:
                key = (trend.series.case, trend.series.figure.name, change.is_worse)
                found.setdefault(key, []).append((night, change.at))
    return {key: seen[0] for key, seen in found.items()}


def step(share, at, figure, cases=None):
    """A change of some cases that stays."""

    def planted(case, name, night):
        is_meant = name == figure and (cases is None or case in cases)
        return math.log1p(share) if is_meant and night >= at else 0.0

    return planted


def drift(share, at, length, figure):
    """A change of all cases that takes many nights."""

    def planted(_case, name, night):
        gone = min(max(night - at + 1, 0) / length, 1.0)
        return math.log1p(share) * gone if name == figure else 0.0

    return planted


def spike(share, at, figure):
    """A change of all cases on one night only."""

    def planted(_case, name, night):
        return math.log1p(share) if name == figure and night == at else 0.0

    return planted


def false_alarms(histories, count):
    """Print what is reported in histories of one environment, in which nothing changed."""
    for seed in range(histories):
        for pooled in (False, True):
            found = first_reports(simulate(seed, count, pooled=pooled))
            kind = "noise of any case, drawn each night" if pooled else "each case's own noise"
            text = f"history {seed}, {kind}: {len(found)} false alarms"
            print(text, *(f"{key}: {night}" for key, (night, _) in found.items()), flush=True)


def detection(histories, figures):
    """Print when planted changes of night 40 of 60 are reported."""
    rows = []
    for figure in figures:
        for share in (0.01, 0.03, 0.05, 0.10):
            sign = -1 if figure in ("speed", "kernel speed") else 1
            for changed_at in (None, 40):
                planted = step(sign * share, 40, figure)
                rows.append((figure, f"a step of {share:.0%}", planted, changed_at))
        rows.append((figure, "a drift of 5% over 20 nights", drift(0.05, 40, 20, figure), None))
        rows.append((figure, "a spike of 30%", spike(0.3, 40, figure), None))
    print(
        "| figure | planted | Triton changes | mean, after nights: median, 9 of 10 "
        "| cases, within 2, 10, 20 nights |"
    )
    print("|---|---|---|---|---|")
    for figure, what, plant, changed_at in rows:
        means, cases, asked = [], [], 0
        for seed in range(histories):
            series = simulate(seed, 60, figures=(figure,), plant=plant, changed_at=changed_at)
            asked += sum(bool(one.case) for one in series)
            found = first_reports(series, first=39)
            delays = {key[0]: night - 39 for key, (night, at) in found.items() if at >= 36}
            means.append(delays.pop("", math.inf))
            cases += delays.values()
        means.sort()
        shares = [sum(delay <= within for delay in cases) / asked for within in (2, 10, 20)]
        late = means[math.ceil(0.9 * len(means)) - 1]
        shown = ", ".join(f"{share:.0%}" for share in shares)
        changed = "yes" if changed_at else "no"
        delays = f"{statistics.median(means):g}, {late:g}".replace("inf", "never")
        print(f"| {figure} | {what} | {changed} | {delays} | {shown} |", flush=True)


#: What is planted in one history, and how.
PLANTED = {
    "speed of all cases 30% higher, on night 12 only": spike(0.3, 12, "speed"),
    "speed of all cases 3% lower from night 25 on, with Triton": step(-0.03, 25, "speed"),
    "peak memory of case 3 10% higher from night 30 on": step(0.1, 30, "peak memory", {3}),
    "compile seconds of all cases 5% higher, over nights 35 to 54": drift(
        0.05, 35, 20, "compile seconds"
    ),
    "kernel speed of cases 0 to 9 5% lower from night 45 on": step(
        -0.05, 45, "kernel speed", set(range(10))
    ),
    "peak memory of all cases doubled, on night 50 only": spike(1.0, 50, "peak memory"),
}


def one_history(seed):
    """Print what is reported first on which of 60 nights."""

    def planted(case, name, night):
        return sum(plant(case, name, night) for plant in PLANTED.values())

    series = simulate(seed, 60, plant=planted, changed_at=25)
    causes, known = functools.cache(nights.environment_changed), {}
    print("| reported on the morning after night | what | first night of it |")
    print("|---|---|---|")
    for night in range(7, 60):
        rows = {}
        for trend in changes.trends(until(series, night), causes):
            for change in trend.changes:
                of_mean = not trend.series.case
                which = (trend.series.figure.name, change.is_worse, of_mean)
                seen = known.setdefault((which, trend.series.case), [])
                if not any(abs(at - change.at) <= 3 for at in seen):
                    seen.append(change.at)
                    rows.setdefault((*which, change.at), []).append(change.share)
        for (name, is_worse, of_mean, at), shares in rows.items():
            who = "the mean of all cases" if of_mean else f"{len(shares)} cases"
            middle = statistics.median(shares)
            kind = "worse" if is_worse else "better"
            print(f"| {night} | {name} of {who}: {middle:+.1%}, {kind} | {at} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--histories", type=int, default=10)
    parser.add_argument("--nights", type=int, default=100, help="of one environment")
    parser.add_argument("what", choices=("false alarms", "detection", "one history"))
    parser.add_argument("--figure", action="append", choices=FIGURES)
    options = parser.parse_args()
    if options.what == "one history":
        one_history(seed=0)
    elif options.what == "detection":
        detection(options.histories, options.figure or FIGURES)
    else:
        false_alarms(options.histories, options.nights)


if __name__ == "__main__":
    main()
