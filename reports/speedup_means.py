"""Geometric means of the speedup, for each device, phase and precision of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from compilegate.reports.columns import Figures

#: The axes by which speedups are averaged: their places in a case id, after the model.
_AXES = slice(1, 4)


@dataclass(frozen=True)
class SpeedupMean:
    """The mean speedup of the cases of one device, phase and precision.

    Attributes:
        axes: The device, the phase and the precision.
        cases: How many cases were timed; where there is an earlier run, in both.
        mean: The geometric mean of their speedups.
        before: The geometric mean in the earlier run; None where there is none.
    """

    axes: tuple[str, ...]
    cases: int
    mean: float
    before: float | None = None

    @property
    def change_percent(self) -> float | None:
        """By how much the mean changed; None where there is no earlier run."""
        return None if self.before is None else 100 * (self.mean / self.before - 1)


def speedup_means(cases: Mapping[str, tuple[Figures | None, Figures]]) -> list[SpeedupMean]:
    """Return the means, in the order of the axes' values.

    Args:
        cases: The figures of an earlier run, if there is one, and of the run, by case id. Where
            any case was timed in both runs, only such cases count.
    """
    timed = {case: now for case, (_, now) in cases.items() if _is_timed(now)}
    both = [case for case in timed if (before := cases[case][0]) and _is_timed(before)]
    groups: dict[tuple[str, ...], list[str]] = {}
    for case in both or timed:
        groups.setdefault(tuple(case.split("-")[_AXES]), []).append(case)
    return [
        SpeedupMean(
            axes,
            len(some),
            _mean([timed[case] for case in some]),
            _mean([before for case in some if (before := cases[case][0])]) if both else None,
        )
        for axes, some in sorted(groups.items())
    ]


def _is_timed(figures: Figures) -> bool:
    speedup = figures.speedup
    return speedup is not None and math.isfinite(speedup.value) and speedup.value > 0


def _mean(figures: Sequence[Figures]) -> float:
    return geometric_mean(found.speedup.value for found in figures if found.speedup)
