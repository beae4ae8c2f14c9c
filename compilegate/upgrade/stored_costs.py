"""Compares what compiled code costs in two stored runs of one machine.

Two runs were made at different times, in processes that share nothing, so a cost that looks worse
proves nothing. It keeps the answer from being *safe* until live pairs have settled it
(:mod:`compilegate.upgrade.paired_costs`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from compilegate.records.pair import Costs
from compilegate.records.statistics import is_busy
from compilegate.runs.slim import SlimObservation
from compilegate.upgrade.costs import COSTS, Cost, Stored

#: The fewest cases whose growth is judged together.
ENOUGH = 8


@dataclass(frozen=True)
class Growth:
    """How one cost of a case grew from one stored run to the other.

    Attributes:
        cost: The cost's name.
        ratio: The candidate's figure over the baseline's.
        is_worse: Whether the case alone looks worse.
        text: Both figures, and what eager did.
    """

    cost: str
    ratio: float
    is_worse: bool
    text: str

    @property
    def aspect(self) -> str:
        """The aspect that judges the cost within one run."""
        stored = COSTS[self.cost].stored
        return stored.aspect if stored else ""


def growths(then: SlimObservation, now: SlimObservation) -> Iterator[Growth]:
    """Compare the costs of a case that both runs measured."""
    sides = Costs.of(then), Costs.of(now)
    for cost in COSTS.values():
        if cost.stored is None or any(is_busy(cost.busy(side)) for side in sides):
            continue
        before, after = map(cost.compiled, sides)
        if before and after:
            yield _growth(cost, cost.stored, sides, before, after)


def _growth(
    cost: Cost, stored: Stored, sides: tuple[Costs, Costs], before: float, after: float
) -> Growth:
    ratio = after / before
    is_worse = ratio > stored.factor and after - before > stored.slack
    why = ""
    ours, theirs = map(cost.eager, sides)
    if ours and theirs:  # if eager's cost grew as much, the compiler is not the cause
        alike = theirs / ours > stored.factor
        also = "and eager, too: not the compiler" if alike else f"eager {theirs / ours:.1f}×"
        why = f", {also}"
    text = f"{stored.looks}: {ratio:.1f}×{why} ({cost.show(before, after)})"
    return Growth(cost.name, ratio, is_worse, text)


@dataclass(frozen=True)
class CostCheck:
    """The costs of all cases together.

    Attributes:
        worse: The number of cases that look worse, by cost name.
        compared: The number of cases that were compared, by cost name.
        means: The geometric mean of the growth, for costs that look worse over all cases together.
    """

    worse: Mapping[str, int] = field(default_factory=dict)
    compared: Mapping[str, int] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """The costs that look worse, with numbers of cases; empty if there is none."""
        parts = []
        for cost in COSTS.values():
            if cost.stored is None:
                continue
            compared = self.compared.get(cost.name, 0)
            if worse := self.worse.get(cost.name):
                parts.append(f"{cost.stored.looks} in {worse} of {compared} cases")
            elif mean := self.means.get(cost.name):
                parts.append(f"{cost.stored.looks}, {mean:.2f}× in the mean of {compared} cases")
        return ", ".join(parts)


def check(cases: Mapping[str, tuple[Growth, ...]]) -> CostCheck:
    """Judge the costs of all cases together.

    Args:
        cases: The growths of each case that was compared.
    """
    ratios: dict[str, list[float]] = {}
    worse: dict[str, int] = {}
    for some in cases.values():
        for growth in some:
            ratios.setdefault(growth.cost, []).append(growth.ratio)
            worse[growth.cost] = worse.get(growth.cost, 0) + growth.is_worse
    means = {}
    for name, found in ratios.items():
        stored = COSTS[name].stored
        if stored and len(found) >= ENOUGH:
            mean = statistics.geometric_mean(found)
            if mean > stored.together:
                means[name] = mean
    return CostCheck(worse, {name: len(found) for name, found in ratios.items()}, means)
