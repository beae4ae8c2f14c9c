"""What compiled code costs in two stored runs of one machine.

Two runs were made at different times, in processes that share nothing, so a cost that looks worse
is no proof. It keeps the answer from being *safe* until live pairs have settled it
(:mod:`compilegate.upgrade.paired_speed`). The factors are about twice as far as healthy runs of one
machine were apart; ``docs/measurements/costs.md`` has the figures.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from compilegate.records.statistics import BUSY
from compilegate.runs.slim import SlimObservation


@dataclass(frozen=True)
class Cost:
    """One cost of compiled code.

    Attributes:
        name: Stands for it where cases are counted.
        aspect: The aspect that judges it within one run.
        looks: What a reader is warned of: ``compiled code looks slower``.
        factor: A case whose cost grew by more looks worse.
        together: Over at least :data:`ENOUGH` cases, a geometric mean of the growth beyond this
            looks worse, too; infinite where single cases suffice.
        slack: Growth by less than this, in the unit of the figure, does not count.
        of: Returns the figure, or None where it was not measured.
        show: Writes a figure with its unit.
        of_eager: Returns eager's figure, where it explains the growth.
    """

    name: str
    aspect: str
    looks: str
    factor: float
    of: Callable[[SlimObservation], float | None]
    show: Callable[[float], str]
    together: float = math.inf
    slack: float = 0.0
    of_eager: Callable[[SlimObservation], float | None] = lambda observation: None


#: The fewest cases whose growth is judged together.
ENOUGH = 8


def _call_ns(observation: SlimObservation) -> float | None:
    """The quickest round: a busy machine only makes others slower."""
    timing = observation.timing
    return min(timing.compiled_ns) if timing and timing.busy <= BUSY else None


def _eager_call_ns(observation: SlimObservation) -> float | None:
    timing = observation.timing
    return min(timing.eager_ns) if timing and timing.busy <= BUSY else None


def _kernels_ns(observation: SlimObservation) -> float | None:
    return (observation.timing.compiled_kernels_ns or None) if observation.timing else None


def _eager_kernels_ns(observation: SlimObservation) -> float | None:
    return (observation.timing.eager_kernels_ns or None) if observation.timing else None


def _peak_bytes(observation: SlimObservation) -> float | None:
    return observation.memory.compiled_peak_bytes if observation.memory else None


def _eager_peak_bytes(observation: SlimObservation) -> float | None:
    return observation.memory.eager_peak_bytes if observation.memory else None


def _compile_s(observation: SlimObservation) -> float | None:
    seen = observation.compile_time
    return seen.total_s if seen and observation.cold and seen.busy <= BUSY else None


def _ms(value: float) -> str:
    return f"{value / 1e6:.3g} ms"


COSTS: tuple[Cost, ...] = (
    Cost(
        "calls",
        "speedup",
        "compiled code looks slower",
        1.5,
        _call_ns,
        _ms,
        together=1.25,
        slack=2e4,
        of_eager=_eager_call_ns,
    ),
    Cost(
        "kernels",
        "speedup",
        "the GPU's kernels look slower",
        1.2,
        _kernels_ns,
        _ms,
        together=1.1,
        slack=1e4,
        of_eager=_eager_kernels_ns,
    ),
    Cost(
        "memory",
        "memory",
        "peak memory looks higher",
        1.1,
        _peak_bytes,
        lambda value: f"{value / 2**20:.1f} MiB",
        slack=2**20,
        of_eager=_eager_peak_bytes,
    ),
    Cost(
        "compiling",
        "compile_time",
        "compiling looks slower",
        2.0,
        _compile_s,
        lambda value: f"{value:.1f} s",
        together=1.25,
        slack=1.0,
    ),
)


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


def growths(then: SlimObservation, now: SlimObservation) -> Iterator[Growth]:
    """Compare the costs of a case that both runs measured."""
    for cost in COSTS:
        before, after = cost.of(then), cost.of(now)
        if not before or after is None:
            continue
        ratio = after / before
        is_worse = ratio > cost.factor and after - before > cost.slack
        figures = f"{cost.show(before)} → {cost.show(after)}"
        why = _why(cost, then, now)
        yield Growth(cost.name, ratio, is_worse, f"{cost.looks}: {figures} ({ratio:.1f}×{why})")


def _why(cost: Cost, then: SlimObservation, now: SlimObservation) -> str:
    """Return what eager did: if it grew alike, the compiler is not the cause."""
    before, after = cost.of_eager(then), cost.of_eager(now)
    if not before or not after:
        return ""
    ratio = after / before
    grew = "and eager, too: not the compiler" if ratio > cost.factor else "eager"
    return f"; {grew} {ratio:.1f}×"


@dataclass(frozen=True)
class CostCheck:
    """What the costs of all cases show together.

    Attributes:
        worse: The number of cases that look worse, by cost name.
        compared: The number of cases that were compared, by cost name.
        means: The geometric mean of the growth, for costs that look worse over all cases together.
    """

    worse: Mapping[str, int] = field(default_factory=dict)
    compared: Mapping[str, int] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """What looks worse, in how many cases; empty where nothing does."""
        parts = []
        for cost in COSTS:
            if worse := self.worse.get(cost.name):
                text = f"{cost.looks} in {worse} of {self.compared[cost.name]} cases"
                parts.append(text)
            elif mean := self.means.get(cost.name):
                cases = self.compared[cost.name]
                parts.append(f"{cost.looks}, {mean:.2f}× in the mean of {cases} cases")
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
    for cost in COSTS:
        found = ratios.get(cost.name, ())
        if len(found) >= ENOUGH and (mean := statistics.geometric_mean(found)) > cost.together:
            means[cost.name] = mean
    return CostCheck(worse, {name: len(found) for name, found in ratios.items()}, means)
