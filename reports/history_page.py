"""A history as one self-contained page that opens offline: the trend of each case, and its changes.

Jinja escapes everything that comes from a run, or the page's script sets it as text, as in
:mod:`compilegate.reports.html`.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import shlex
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from compilegate.history import nights
from compilegate.history.changes import Trend
from compilegate.history.events import Event
from compilegate.history.figures import FIGURES, Figure
from compilegate.history.nights import History, Night
from compilegate.reports import history_text, page_data
from compilegate.reports.html import ENVIRONMENT, PAGE
from compilegate.reports.page_data import number


def page(
    history: History, trends: Sequence[Trend], events: Sequence[Event], words: Sequence[str]
) -> str:
    """Return the page.

    Args:
        history: The runs.
        trends: What became of their figures.
        events: The changes, the newest first.
        words: The command that confirms the newest change for the worse, if there is one.
    """
    script = (PAGE / "history.js").read_text()
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    worse = any(event.is_worse and event.holds for event in events)
    judged = any(trend.is_judged for trend in trends)
    return ENVIRONMENT.get_template("history.html.j2").render(
        title=history_text.headline(history, events),
        answer="failed" if worse else "safe" if judged else "cannot-say",
        events=[(event, history_text.sentence(event)) for event in events],
        notes=history.notes,
        command=shlex.join(words),
        script_hash=digest,
        style=Markup((PAGE / "page.css").read_text() + (PAGE / "history.css").read_text()),
        script=Markup(script),
        data=Markup(page_data.encode(_data(history, trends))),
    )


def _data(history: History, trends: Sequence[Trend]) -> dict[str, Any]:
    places = list(dict.fromkeys(trend.series.place for trend in trends))
    index = {night: position for position, night in enumerate(history.nights)}
    used = dict.fromkeys(trend.series.figure.name for trend in trends)
    return {
        "nights": [[night.date, night.path.name, _versions(night)] for night in history.nights],
        "places": [
            {"name": str(place), "changes": _environments(trends, place, index)} for place in places
        ],
        "figures": [_figure(figure) for name, figure in FIGURES.items() if name in used],
        "series": [
            {
                "place": places.index(trend.series.place),
                "case": trend.series.case,
                "cases": trend.series.cases,
                "figure": trend.series.figure.name,
                "nights": [index[night] for night in trend.series.nights],
                "values": [number(reading.value) for reading in trend.series.readings],
                "levels": [
                    [one.start, one.end, *map(number, (one.value, one.low, one.high))]
                    for one in trend.levels
                ],
                "changes": [
                    [one.at, number(one.share), one.is_worse, one.cause] for one in trend.changes
                ],
            }
            for trend in trends
        ],
    }


def _versions(night: Night) -> str:
    versions = night.header.environment.versions
    return ", ".join(f"{name} {text}" for name, text in versions.items())


def _figure(figure: Figure) -> dict[str, Any]:
    divisor, unit = figure.unit
    return {
        "name": figure.name,
        "about": figure.about,
        "divisor": divisor,
        "unit": unit,
        "exact": figure.is_exact,
        "moreIsBetter": figure.more_is_better,
    }


def _environments(
    trends: Sequence[Trend], place: nights.Place, index: dict[Night, int]
) -> list[list[Any]]:
    """Return the nights of a place on which the environment changed, with what changed."""
    changed = functools.cache(nights.environment_changed)
    here = {night for t in trends if t.series.place == place for night in t.series.nights}
    ordered = sorted(here, key=lambda night: index[night])
    pairs = itertools.pairwise(ordered)
    return [[index[now], text] for before, now in pairs if (text := changed(before, now))]
