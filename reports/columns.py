"""The columns of all reports: one figure of a case each, keyed by the aspects' ``column``.

The terminal, Markdown and the page read :data:`COLUMNS`. A new column is an entry here for an
aspect that names it in :mod:`compilegate.judging.aspects`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from compilegate.judging.aspects import ASPECTS
from compilegate.records import graph_breaks
from compilegate.records.observation import Observation
from compilegate.records.practice import ratios_in
from compilegate.records.recompilations import total_of
from compilegate.records.statistics import Interval, paired_speedup
from compilegate.runs.slim import SlimObservation
from compilegate.runs.worst_error import worst_error

#: The record of a case in a run file: complete, or the part that reports need.
Measured = Observation | SlimObservation
Unit = Literal["ratio", "seconds", "count", "error"]


@dataclass(frozen=True)
class Column:
    """One figure of a case.

    Attributes:
        name: The heading.
        brief: The heading where a line has little room.
        unit: How the figure is written, and on which scale charts draw it.
        about: What the figure means.
        of: Returns the figure, or None where it was not measured.
        more_is_better: Whether a larger figure is the better one.
        has_change: Whether the page shows its change between two runs, in per cent.
    """

    name: str
    brief: str
    unit: Unit
    about: str
    of: Callable[[Measured], float | None]
    more_is_better: bool = False
    has_change: bool = False

    def show(self, value: float) -> str:
        """Return a figure as text with its unit."""
        match self.unit:
            case "ratio":
                return f"{value:.2f}×"
            case "seconds":
                return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"
            case "count":
                return f"{value:.0f}"
            case "error":
                return f"{value:.1g}"


@dataclass(frozen=True)
class Figures:
    """The figures of one case.

    Attributes:
        values: By column name; None for a figure that was not measured.
        speedup: The speedup with its interval; None where no rounds were timed.
        cold: Whether the case was compiled in an empty cache.
        modes: The calls a second of other modes, relative to the case's own mode. The practice
            ``backends`` measures them.
    """

    values: Mapping[str, float | None]
    speedup: Interval | None = None
    cold: bool = False
    modes: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, str]:
        """The text of each figure that was measured, by column name."""
        texts = {
            column.name: column.show(value)
            for column in COLUMNS
            if (value := self.values.get(column.name)) is not None
        }
        if "compile" in texts and not self.cold:
            texts["compile"] += " warm"
        return texts


def figures_of(measured: Measured) -> Figures:
    """Return the figures of a case."""
    values = {column.name: column.of(measured) for column in COLUMNS}
    return Figures(values, _speedup(measured), measured.cold, _modes(measured))


def _modes(measured: Measured) -> dict[str, Interval]:
    practice = measured.practices.get("backends")
    return dict(ratios_in(practice.figures)) if practice else {}


def _breaks(measured: Measured) -> float | None:
    if measured.capture is None:
        return None
    return len(graph_breaks.distinct(graph_breaks.found_in(measured.capture)))


def _recompilations(measured: Measured) -> float | None:
    return total_of(measured.capture) if measured.capture else None


def _speedup(measured: Measured) -> Interval | None:
    timing = measured.timing
    return paired_speedup(timing.eager_ns, timing.compiled_ns) if timing else None


def _speedup_value(measured: Measured) -> float | None:
    speedup = _speedup(measured)
    return speedup.value if speedup else None


def _compile_s(measured: Measured) -> float | None:
    return measured.compile_time.total_s if measured.compile_time else None


def _memory_ratio(measured: Measured) -> float | None:
    memory = measured.memory
    return memory.ratio if memory and memory.eager_peak_bytes else None


_BY_NAME = {
    column.name: column
    for column in (
        Column(
            "forward",
            "fwd",
            "error",
            "root mean square error of the worst output, relative to its scale",
            lambda measured: worst_error(measured, "outputs"),
        ),
        Column(
            "gradients",
            "grad",
            "error",
            "root mean square error of the worst gradient, relative to its scale",
            lambda measured: worst_error(measured, "gradients"),
        ),
        Column("breaks", "breaks", "count", "distinct graph breaks", _breaks),
        Column(
            "recompiles",
            "recomp",
            "count",
            "compilations after the first one of each code object, of all code objects together",
            _recompilations,
        ),
        Column(
            "speedup",
            "speed",
            "ratio",
            "eager time divided by compiled time",
            _speedup_value,
            more_is_better=True,
            has_change=True,
        ),
        Column(
            "compile",
            "compile",
            "seconds",
            "seconds of compiling up to the first result",
            _compile_s,
            has_change=True,
        ),
        Column("memory", "mem", "ratio", "compiled peak memory divided by eager's", _memory_ratio),
    )
}
#: The columns in the order in which the registry of aspects has them.
COLUMNS: tuple[Column, ...] = tuple(
    _BY_NAME[aspect.column] for aspect in ASPECTS.values() if aspect.column
)
