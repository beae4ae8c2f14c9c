"""The figures of a case that are followed over nights: one registry for all of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from compilegate.records import graph_breaks
from compilegate.records.pair import Costs
from compilegate.records.recompilations import total_of
from compilegate.records.statistics import (
    ALPHA,
    FEWEST_ROUNDS,
    is_busy,
    paired_speedup,
    sign_test_rank,
)
from compilegate.runs.archive import CaseRecord
from compilegate.runs.slim import SlimObservation
from compilegate.runs.worst_error import worst_error

#: An interval of the sign test spans this many standard errors, if errors are about normal.
_ERRORS_IN_INTERVAL = 2 * statistics.NormalDist().inv_cdf(1 - ALPHA / 2)
#: Errors below this are rounding of the error itself.
_LEAST_ERROR = 1e-12


@dataclass(frozen=True)
class Reading:
    """A figure of a case in one run.

    Attributes:
        value: The figure.
        spread: The standard error of its logarithm, as the rounds of this run show it; 0 where the
            run does not show it.
        eager: The same figure of eager, which may explain a change; None where there is none.
        basis: What must be equal for two readings to compare.
    """

    value: float
    spread: float = 0.0
    eager: float | None = None
    basis: str = ""


_Of = Callable[[CaseRecord], Reading | None]


@dataclass(frozen=True)
class Figure:
    """A figure that is followed over nights.

    Attributes:
        name: Names it in a sentence: ``speed``.
        about: What it means.
        unit: Divides a value for a reader, and its name: ``(1e6, "ms")``.
        of: Returns the reading of a case; None where it was not measured, or on a busy machine.
        more_is_better: Whether a larger figure is the better one.
        is_exact: Whether it is a count, which is the same on each night of one environment.
        is_common: Whether its mean over all cases is followed, too.
        least: The logarithm of the smallest change that is reported.
    """

    name: str
    about: str
    unit: tuple[float, str]
    of: _Of
    more_is_better: bool = False
    is_exact: bool = False
    is_common: bool = False
    least: float = math.log(1.005)

    def show(self, value: float) -> str:
        """Return a value with its unit."""
        divisor, name = self.unit
        shown = value / divisor
        text = f"{shown:,.0f}" if shown >= 1000 or self.is_exact else f"{shown:.3g}"
        return f"{text}{name}" if name == "×" else f"{text} {name}".rstrip()

    def level(self, value: float) -> float:
        """Return the value on the scale of changes: its logarithm, but a count as it is."""
        return value if self.is_exact else math.log(value)

    def value(self, level: float) -> float:
        """Return the value of a level."""
        return level if self.is_exact else math.exp(level)


def _measured(of: Callable[[SlimObservation], Reading | None]) -> _Of:
    """Return the reading of a case that was observed to its end, of one model and its sizes."""

    def reading(record: CaseRecord) -> Reading | None:
        seen = record.observation
        if seen is None or seen.status != "completed" or (found := of(seen)) is None:
            return None
        sizes = "; ".join(str(call.sizes) for call in seen.calls)
        return replace(found, basis=f"{seen.fingerprint} {sizes} {found.basis}")

    return reading


def _failed(record: CaseRecord) -> Reading | None:
    if not record.verdicts:
        return None
    return Reading(sum(verdict.outcome == "failed" for verdict in record.verdicts.values()))


def _speed(seen: SlimObservation) -> Reading | None:
    timing = seen.timing
    if timing is None or not _is_quiet(seen) or len(timing.eager_ns) < FEWEST_ROUNDS:
        return None
    found = paired_speedup(timing.eager_ns, timing.compiled_ns)
    return Reading(found.value, math.log(found.high / found.low) / _ERRORS_IN_INTERVAL)


def _kernel_speed(seen: SlimObservation) -> Reading | None:
    speed = seen.timing.kernel_speedup if seen.timing and _is_quiet(seen) else None
    return Reading(speed) if speed else None


def _compiled_time(seen: SlimObservation) -> Reading | None:
    timing = seen.timing
    if timing is None or not _is_quiet(seen) or len(timing.compiled_ns) < FEWEST_ROUNDS:
        return None
    spread = _spread_of_median(timing.compiled_ns)
    eager = statistics.median(timing.eager_ns)
    return Reading(statistics.median(timing.compiled_ns), spread, eager)


def was_disturbed(record: CaseRecord) -> bool:
    """Whether a case was timed on a busy machine or a throttled GPU, so that its times say less."""
    seen = record.observation
    return seen is not None and seen.timing is not None and not _is_quiet(seen)


def _is_quiet(seen: SlimObservation) -> bool:
    timing = seen.timing
    return timing is not None and not (is_busy(timing.busy, timing.threads) or timing.disturbance)


def _spread_of_median(rounds_ns: Sequence[float]) -> float:
    ordered = sorted(map(math.log, rounds_ns))
    rank = sign_test_rank(len(ordered))
    return (ordered[-rank] - ordered[rank - 1]) / _ERRORS_IN_INTERVAL


def _compile_seconds(seen: SlimObservation) -> Reading | None:
    costs = Costs.of(seen)  # it leaves out what was compiled with a warm cache
    if not costs.compile_s or is_busy(costs.compile_busy):
        return None
    return Reading(costs.compile_s)


def _compile_work(seen: SlimObservation) -> Reading | None:
    work = seen.compile_work
    return Reading(work.total, basis=f"Python {work.python}") if work and work.total else None


def _peak_memory(seen: SlimObservation) -> Reading | None:
    memory = seen.memory
    if memory is None or not memory.compiled_peak_bytes:
        return None
    return Reading(memory.compiled_peak_bytes, eager=memory.eager_peak_bytes or None)


def _graph_breaks(seen: SlimObservation) -> Reading | None:
    if seen.capture is None:
        return None
    return Reading(len(graph_breaks.distinct(graph_breaks.found_in(seen.capture))))


def _recompilations(seen: SlimObservation) -> Reading | None:
    return Reading(total_of(seen.capture)) if seen.capture else None


def _error(seen: SlimObservation) -> Reading | None:
    errors = (worst_error(seen, "outputs"), worst_error(seen, "gradients"))
    known = [error for error in errors if error is not None and math.isfinite(error)]
    return Reading(max(*known, _LEAST_ERROR)) if known else None


#: All figures by name, in the order in which reports show them.
FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            "speed",
            "eager time divided by compiled time, in paired rounds",
            (1, "×"),
            _measured(_speed),
            more_is_better=True,
            is_common=True,
        ),
        Figure(
            "kernel speed",
            "time of the GPU's kernels in an eager call divided by that in a compiled call",
            (1, "×"),
            _measured(_kernel_speed),
            more_is_better=True,
            is_common=True,
        ),
        Figure(
            "compiled time",
            "median time of a compiled call",
            (1e6, "ms"),
            _measured(_compiled_time),
            is_common=True,
        ),
        Figure(
            "compile seconds",
            "seconds of compiling in an empty cache",
            (1, "s"),
            _measured(_compile_seconds),
            is_common=True,
        ),
        Figure(
            "compile work", "Python calls while compiling", (1, "calls"), _measured(_compile_work)
        ),
        Figure(
            "peak memory",
            "peak memory of a compiled call",
            (2.0**20, "MiB"),
            _measured(_peak_memory),
        ),
        Figure(
            "graph breaks",
            "distinct graph breaks",
            (1, ""),
            _measured(_graph_breaks),
            is_exact=True,
        ),
        Figure(
            "recompilations",
            "compilations after the first one of each code object",
            (1, ""),
            _measured(_recompilations),
            is_exact=True,
        ),
        Figure(
            "error",
            "largest root mean square error of an output or gradient, relative to its scale",
            (1, ""),
            _measured(_error),
            least=math.log(1.25),
        ),
        Figure("failed verdicts", "verdicts that failed", (1, ""), _failed, is_exact=True),
    )
}
