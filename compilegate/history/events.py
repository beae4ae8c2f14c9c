"""Changes of many series that are one event, and the command that confirms it."""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass

from compilegate.history import changes, nights
from compilegate.history.changes import Change, Trend
from compilegate.history.figures import Figure
from compilegate.history.nights import History, Night, Place
from compilegate.runs import reproduction


@dataclass(frozen=True)
class Event:
    """A figure of some cases that changed on one night, in one direction.

    Attributes:
        figure: What changed.
        place: Where the cases are observed.
        night: The first night after the change.
        last_good: The night before it.
        is_worse: Whether it is for the worse.
        holds: Whether the figures of the last night are still beyond those before the change.
        cause: What changed in the environment on that night; empty if nothing that is recorded.
        found: The trend and the change of each case, the largest change first. That of the mean
            over all cases is alone.
    """

    figure: Figure
    place: Place
    night: Night
    last_good: Night
    is_worse: bool
    holds: bool
    cause: str
    found: tuple[tuple[Trend, Change], ...]

    @property
    def cases(self) -> list[str]:
        """The ids of the cases; none for the mean over all cases."""
        return [trend.series.case for trend, _ in self.found if trend.series.case]

    @property
    def rose(self) -> bool:
        """Whether the figure is larger after it."""
        return self.is_worse != self.figure.more_is_better


def trends_of(history: History) -> list[Trend]:
    """Find the changes of all series of a history."""
    return changes.trends(history.series, functools.cache(nights.environment_changed))


def events_of(trends: Sequence[Trend]) -> list[Event]:
    """Return the changes as events: the newest first, and of one night those of most cases."""
    alike: dict[tuple[Place, str, Night, bool, bool], list[tuple[Trend, Change]]] = {}
    for trend in trends:
        series = trend.series
        for change in trend.changes:
            night, is_mean = series.nights[change.at], not series.case
            key = (series.place, series.figure.name, night, change.is_worse, is_mean)
            alike.setdefault(key, []).append((trend, change))
    found = [
        Event(
            trend.series.figure,
            place,
            night,
            trend.series.nights[change.at - 1],
            is_worse,
            any(_holds(*one) for one in members),
            change.cause,
            tuple(sorted(members, key=lambda one: -abs(one[1].share))),
        )
        for (place, _, night, is_worse, _), members in alike.items()
        for trend, change in members[:1]
    ]
    found.sort(key=lambda event: (-len(event.cases), event.figure.name))
    return sorted(found, key=lambda event: event.night.header.created, reverse=True)


def _holds(trend: Trend, change: Change) -> bool:
    figure, last = trend.series.figure, trend.levels[-1].value
    moved = figure.level(last) - figure.level(change.before)
    towards = math.copysign(1.0, change.after - change.before)
    return moved * towards > (0 if figure.is_exact else figure.least)


def confirming_words(events: Sequence[Event], last_good: str = "", python: str = "") -> list[str]:
    """Return the command that times the newest change for the worse in fresh pairs.

    Args:
        events: What changed, the newest first.
        last_good: The interpreter of the last good environment; by default a path to be filled in.
        python: The interpreter that runs pytest; by default this one if it has pytest.

    Returns:
        The words; none where nothing became worse.
    """
    worse = [event for event in events if event.is_worse and event.holds]
    if not worse:
        return []
    newest = worse[0]
    together = [
        event for event in worse if event.night is newest.night and event.place == newest.place
    ]
    cases = list(dict.fromkeys(case for event in together for case in event.cases))
    date = newest.last_good.date
    baseline = last_good or f"/path/to/environment-of-{date}/bin/python"
    devices = (newest.place.device,)
    words = reproduction.paired_words(newest.night.header, cases, baseline, devices)
    if not python and importlib.util.find_spec("pytest") is not None:
        return words
    return [python or "python", "-m", "pytest", *words[len(reproduction.pytest_words()) :]]
