"""The costs of compiled code that an upgrade may raise: one registry for all of them.

Pairs of live processes judge a cost (:mod:`compilegate.upgrade.paired_costs`). Two stored runs only
show that it looks worse (:mod:`compilegate.upgrade.stored_costs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from compilegate.judging.budget import Budget
from compilegate.records.observation import Want
from compilegate.records.pair import Costs

#: Returns a figure of a process, or None where it was not measured.
Figure = Callable[[Costs], float | None]


@dataclass(frozen=True)
class Stored:
    """When a cost looks worse in two stored runs.

    The factors are about twice as far as healthy runs of one machine were apart:
    ``docs/measurements/costs.md``.

    Attributes:
        looks: What a reader is warned of: ``compiled code looks slower``.
        aspect: The aspect that judges the cost within one run.
        factor: A case whose cost grew by more looks worse.
        together: Over several cases, a geometric mean of the growth beyond this looks worse, too;
            infinite where single cases suffice.
        slack: Growth by less than this, in the unit of the figure, does not count.
    """

    looks: str
    aspect: str
    factor: float
    together: float = math.inf
    slack: float = 0.0


@dataclass(frozen=True)
class Cost:
    """One cost of compiled code.

    Attributes:
        name: Names it where costs are listed.
        want: What has to be observed to measure it.
        compiled: The figure of compiled code.
        eager: The figure of eager, which explains the growth.
        unit: Divides a figure for a reader, and its name: ``(1e6, "ms")``.
        aspect: The aspect of live pairs that judges it; empty where stored runs alone compare it.
        key: The budget's key for the growth that passes.
        worse: What a reader learns where it grew: ``compiled code is slower``.
        slack: Growth by less than this, in the unit of the figure, passes in live pairs.
        cpu_slack: The same on CPU, where it is another one: a GPU's allocator hands out blocks that
            are up to 1 MiB larger than a tensor.
        is_exact: Whether it is the same in each process, and needs no statistics.
        busy: The share of the processor that others took while it was measured.
        before: What was there before it was measured, and may be part of it. If it differs by more
            than the slack from side to side, the figures do not compare.
        stored: When it looks worse in two stored runs; None where they do not compare it.
    """

    name: str
    want: Want
    compiled: Figure
    unit: tuple[float, str]
    eager: Figure = lambda costs: None
    aspect: str = ""
    key: str = ""
    worse: str = ""
    slack: float = 0.0
    cpu_slack: float | None = None
    is_exact: bool = False
    busy: Callable[[Costs], float] = lambda costs: 0.0
    before: Figure = lambda costs: None
    stored: Stored | None = None

    def floor(self, budget: Budget) -> float:
        """Return the logarithm of the growth that passes."""
        return math.log1p(getattr(budget, self.key))

    def slack_on(self, device: str) -> float:
        """Return the slack of cases on a device."""
        return self.cpu_slack if device == "cpu" and self.cpu_slack is not None else self.slack

    @property
    def doubtful(self) -> float:
        """From what growth on it is not *safe* to leave it open: that of two stored runs."""
        # Stored runs compare the quickest calls in place of all calls.
        stored = self.stored or COSTS["quickest calls"].stored
        assert stored is not None
        return stored.factor

    def show(self, *figures: float) -> str:
        """Return figures with their unit: ``8 → 32 ms``."""
        divisor, name = self.unit
        return f"{' → '.join(_short(figure / divisor) for figure in figures)} {name}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


_MS, _MIB, _S, _J = (1e6, "ms"), (2.0**20, "MiB"), (1.0, "s"), (1.0, "J")

#: All costs by name. The first of an aspect is the one that its verdict shows where none grew.
COSTS: dict[str, Cost] = {
    cost.name: cost
    for cost in (
        Cost(
            "calls",
            "time",
            attrgetter("compiled_ns"),
            _MS,
            eager=attrgetter("eager_ns"),
            aspect="slowdown",
            key="max_slowdown",
            worse="compiled code is slower",
            slack=1e3,
            busy=attrgetter("busy"),
        ),
        Cost(
            "95th percentile of calls",
            "time",
            attrgetter("compiled_p95_ns"),
            _MS,
            eager=attrgetter("eager_p95_ns"),
            aspect="slowdown",
            key="max_p95_slowdown",
            worse="the 95th percentile of compiled calls is slower",
            slack=1e4,
            busy=attrgetter("busy"),
            stored=Stored(
                "the 95th percentile of calls looks slower", "speedup", 4.0, together=1.5, slack=1e6
            ),
        ),
        Cost(
            "quickest calls",
            "time",
            attrgetter("compiled_best_ns"),
            _MS,
            eager=attrgetter("eager_best_ns"),
            busy=attrgetter("busy"),
            stored=Stored("compiled code looks slower", "speedup", 1.5, together=1.25, slack=2e4),
        ),
        Cost(
            "kernels",
            "time",
            attrgetter("compiled_kernels_ns"),
            _MS,
            eager=attrgetter("eager_kernels_ns"),
            stored=Stored("the GPU's kernels look slower", "speedup", 1.2, together=1.1, slack=1e4),
        ),
        Cost(
            "peak memory",
            "memory",
            attrgetter("compiled_peak_bytes"),
            _MIB,
            eager=attrgetter("eager_peak_bytes"),
            aspect="memory_growth",
            key="max_memory_growth",
            worse="compiled code needs more memory at its peak",
            slack=2**20,
            cpu_slack=2**12,
            is_exact=True,
            stored=Stored("peak memory looks higher", "memory", 1.1, slack=2**20),
        ),
        Cost(
            "reserved memory",
            "memory",
            attrgetter("compiled_reserved_bytes"),
            _MIB,
            eager=attrgetter("eager_reserved_bytes"),
            aspect="memory_growth",
            key="max_reserved_growth",
            worse="compiled code reserves more memory",
            slack=32 * 2**20,
            is_exact=True,
            before=attrgetter("compiled_unused_bytes"),
            stored=Stored("reserved memory looks higher", "memory", 2.0, slack=2.0**28),
        ),
        Cost(
            "memory kept after the first call",
            "memory",
            attrgetter("first_call_kept_bytes"),
            _MIB,
            aspect="memory_growth",
            key="max_kept_growth",
            worse="more memory stays allocated after the first compiled call",
            slack=2**20,
            is_exact=True,
            stored=Stored("memory that stays allocated looks higher", "memory", 1.1, slack=2**20),
        ),
        Cost(
            "compiling",
            "capture",
            attrgetter("compile_s"),
            _S,
            aspect="compile_slowdown",
            key="max_compile_slowdown",
            worse="compiling takes longer",
            slack=1.0,
            busy=attrgetter("compile_busy"),
            stored=Stored("compiling looks slower", "compile_time", 2.0, together=1.25, slack=1.0),
        ),
        Cost(
            "warm start",
            "start",
            attrgetter("warm_s"),
            _S,
            aspect="compile_slowdown",
            key="max_warm_start_slowdown",
            worse="starting with warm caches takes longer",
            slack=0.5,
            busy=attrgetter("warm_busy"),
            stored=Stored("starting with warm caches looks slower", "compile_time", 2.0, slack=1.0),
        ),
        Cost(
            "energy",
            "energy",
            attrgetter("compiled_j"),
            _J,
            eager=attrgetter("eager_j"),
            aspect="energy_growth",
            key="max_energy_growth",
            worse="a compiled call needs more energy",
            slack=0.01,
            stored=Stored(
                "the energy of a call looks higher", "energy", 2.0, together=1.25, slack=0.05
            ),
        ),
    )
}

#: The costs that live pairs judge.
PAIRED = tuple(cost for cost in COSTS.values() if cost.aspect)
#: How a headline counts the cases in which a cost grew, by the aspect that judges it.
COUNTED = {
    "slowdown": "slower",
    "memory_growth": "with more memory",
    "compile_slowdown": "slower to compile",
    "energy_growth": "with more energy",
}
