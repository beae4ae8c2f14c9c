"""Judges the ratios that a practice measured, where a budget of the user asks for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from compilegate.judging.finding import Finding
from compilegate.records.practice import ratios_in
from compilegate.records.statistics import Interval, is_busy


def decisive(findings: Iterable[Finding]) -> Finding | None:
    """Return the first finding that failed, else the first inconclusive one; None if all passed."""
    worst: Finding | None = None
    for finding in findings:
        if finding.outcome == "failed":
            return finding
        if finding.outcome != "passed":
            worst = worst or finding
    return worst


def measured(figures: Mapping[str, float], name: str) -> Interval | None:
    """Return the ratio whose figures' names begin with a name; None if it was not measured."""
    return dict(ratios_in(figures)).get(name)


def quotient(figures: Mapping[str, float], numerator: str, denominator: str) -> Interval | None:
    """Return the ratio of two figures that were measured once; None if one of them was not."""
    above, below = figures.get(numerator), figures.get(denominator)
    if above is None or not below:
        return None
    return Interval(above / below, above / below, above / below)


def contention(busy_share: float) -> str:
    """Return the end of a summary with figures, where others took much of the processor."""
    if not is_busy(busy_share):
        return ""
    return f"; other processes took {busy_share:.0%} of the processor, so the figures are uncertain"


def judge_ratio(
    seen: Interval | None, wanted: float, *, busy_share: float, what: str, key: str
) -> Finding:
    """Judge a ratio by its budget: passed if its interval lies within, failed if beyond.

    Args:
        seen: The ratio with its confidence interval; None if it was not measured.
        wanted: The budget's value.
        busy_share: The share of the processor that others took while it was measured.
        what: The sentence about the ratio, with ``{}`` in its place.
        key: The key of the budget. It begins with ``min`` or ``max``.
    """
    if seen is None:
        return Finding("inconclusive", f"{what.format('an unknown ratio of')}: it was not measured")
    at_least = key.startswith("min")
    ratio = seen.text if seen.low < seen.high else f"{seen.value:.2f}×"
    text = f"{what.format(ratio)}, {'at least' if at_least else 'at most'} {wanted:g}× wanted"
    if seen.low >= wanted if at_least else seen.high <= wanted:
        return Finding("passed", text)
    if seen.high >= wanted if at_least else seen.low <= wanted:
        return Finding("inconclusive", text)
    if is_busy(busy_share):
        return Finding("inconclusive", f"{text}: other processes took much of the processor")
    attainable = math.floor(90 * seen.low) if at_least else math.ceil(110 * seen.high)
    return Finding("failed", text, proposal={key: attainable / 100})
