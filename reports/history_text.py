"""A history as text: what is known of how many nights, then a sentence for each change."""

from __future__ import annotations

import math
import shlex
import shutil
from collections.abc import Iterator, Sequence

from compilegate.history.changes import FEWEST_BEFORE, SHORTEST, Change, Trend
from compilegate.history.events import Event
from compilegate.history.nights import History
from compilegate.output.visible import visible
from compilegate.reports.comparison_text import WIDTH
from compilegate.reports.text import count, wrapped

#: As many events, and cases of an event, as are shown before the rest is counted.
EVENTS, CASES = 20, 6
#: If eager's figure changed by this share of the change of compiled code, both changed.
_ALIKE = 0.5


def headline(history: History, events: Sequence[Event], *, is_judged: bool = True) -> str:
    """Return the answer in one line.

    Args:
        history: The runs.
        events: What changed.
        is_judged: Whether there are enough nights to judge any figure.
    """
    if not history.nights:
        return "no run could be read"
    dates = [history.nights[0].date, history.nights[-1].date]
    span = " to ".join(dict.fromkeys(dates))
    worse = [event for event in events if event.is_worse and event.holds]
    cases = {case for event in worse for case in event.cases}
    found = ["the mean over all cases"] if any(not event.cases for event in worse) else []
    found += [count(len(cases), "case")] if cases else []
    if found:
        text = f"{' and '.join(found)} became worse"
    else:
        text = "nothing became worse" if is_judged else "too few nights to say"
    return f"{span}, {count(len(history.nights), 'run')}: {text}"


def sentence(event: Event) -> str:
    """Return an event in one sentence: *speed of 3 cases fell on 2026-11-18, with triton …*."""
    verb = "rose" if event.rose else "fell"
    changes = [change for _, change in event.found]
    if event.cases:
        who = f"{event.figure.name} of {count(len(event.cases), 'case')}"
    else:
        cases = event.found[0][0].series.cases
        who = f"the mean {event.figure.name} of all {cases} cases"
    back = "" if event.holds or not event.is_worse else ", and came back"
    because = f", with {event.cause}" if event.cause else ""
    eager = ", and eager's, too" if all(_is_eager_alike(*one) for one in event.found) else ""
    return f"{who} {verb} on {event.night.date}{_by(changes)}{eager}{because}{back}"


def _by(changes: Sequence[Change]) -> str:
    shares = sorted(abs(change.share) for change in changes)
    if not all(map(math.isfinite, shares)):
        return ""
    least, most = (f"{share:.1%}" for share in (shares[0], shares[-1]))
    return f" by {least}" if least == most else f" by {least} to {most}"


def _is_eager_alike(trend: Trend, change: Change) -> bool:
    eager = [reading.eager for reading in trend.series.readings]
    level = next(level for level in trend.levels if level.start == change.at)
    former = trend.levels[trend.levels.index(level) - 1]
    before, after = (
        [math.log(value) for value in eager[part.start : part.end] if value]
        for part in (former, level)
    )
    if not before or not after or change.before <= 0 or change.after <= 0:
        return False
    moved = math.log(change.after / change.before)
    return (sum(after) / len(after) - sum(before) / len(before)) / moved > _ALIKE


def lines(
    history: History, trends: Sequence[Trend], events: Sequence[Event], words: Sequence[str]
) -> Iterator[str]:
    """Yield a history as text.

    Args:
        history: The runs.
        trends: What became of their figures.
        events: The changes, the newest first.
        words: The command that confirms the newest change for the worse, if there is one.
    """
    width = shutil.get_terminal_size((WIDTH, 24)).columns
    for text in _texts(history, trends, events, words):
        yield from wrapped(visible(text), width)


def _texts(
    history: History, trends: Sequence[Trend], events: Sequence[Event], words: Sequence[str]
) -> Iterator[str]:
    yield headline(history, events, is_judged=any(trend.is_judged for trend in trends))
    for place in dict.fromkeys(trend.series.place for trend in trends):
        here = [trend.series for trend in trends if trend.series.place == place]
        dates = {night for series in here for night in series.nights}
        cases = {series.case for series in here if series.case}
        yield f"  {count(len(dates), 'night')}, {count(len(cases), 'case')}: {place}"
    yield from (f"note: {note}" for note in history.notes)
    young = sum(not trend.is_judged for trend in trends)
    if young:
        yield (
            f"note: {young} of {len(trends)} series cannot be judged: a figure with "
            f"noise needs {FEWEST_BEFORE + SHORTEST} nights on one machine"
        )
    for event in events[:EVENTS]:
        yield sentence(event)
        for trend, change in event.found[:CASES]:
            if trend.series.case:
                yield f"  {_line(trend, change)}"
        if len(event.cases) > CASES:
            yield f"  and {len(event.cases) - CASES} more"
    if len(events) > EVENTS:
        yield f"and {len(events) - EVENTS} earlier changes: the page has them"
    if words:
        newest = next(event for event in events if event.is_worse and event.holds)
        yield (
            f"to confirm in fresh pairs with the environment of {newest.last_good.date} "
            f"({newest.last_good.path.name}), run: {shlex.join(words)}"
        )


def _line(trend: Trend, change: Change) -> str:
    figure = trend.series.figure
    levels = f"{figure.show(change.before)} → {figure.show(change.after)}"
    share = f" ({change.share:+.1%})" if math.isfinite(change.share) else ""
    return f"{trend.series.case}  {levels}{share}".replace("(-", "(−")
