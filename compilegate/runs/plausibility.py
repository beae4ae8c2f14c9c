"""Finds figures that no observing process writes, although their types are right.

Rules and reports divide by figures of a record and take their logarithms. A damaged or invented
figure must be refused where the file and the line are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain

from compilegate.records.call import TensorError
from compilegate.records.observation import Observation
from compilegate.records.pair import Costs, Pair
from compilegate.records.performance import CompileTime, Energy, Memory, Timing
from compilegate.records.randomness import Randomness
from compilegate.records.rounding import EPS
from compilegate.runs.slim import GROUPS, SlimObservation, SlimTensor

#: Any figure is smaller: 30 years in nanoseconds, a million times the memory of a large host.
_MOST = 1e18
#: Durations, energies and ratios are larger, or 0 where there was nothing to measure.
_LEAST = 1e-12
#: How the names of such figures end. Bytes that stay allocated may be negative; shares of the
#: processor and the phases of compiling may be rounding errors.
_MEASURED = (
    *("_ns", "_j", "speedup", "_peak_bytes", "_reserved_bytes"),
    *("total_s", "first_call_s", "compile_s", "warm_s"),
)


def implausible(record: object) -> str:
    """Return what is wrong with the figures of a record, complete or slim; empty if nothing is."""
    found: Iterator[str] = iter(())
    if isinstance(record, Observation | SlimObservation):
        found = _of_observation(record)
    elif isinstance(record, Pair):
        found = chain(_of_figures(record.baseline), _of_figures(record.candidate))
    return next(found, "")


def _of_observation(seen: Observation | SlimObservation) -> Iterator[str]:
    if seen.status == "completed" and seen.calls and seen.compile_time is None:
        yield "it completed, but has no compile_time"
    if len({frozenset(call.sizes) for call in seen.calls}) > 1:
        yield "the sizes of its calls have different names"
    for measured in (seen.compile_time, seen.timing, seen.memory, seen.energy):
        yield from _of_figures(measured)
    if seen.timing is not None:
        yield from _of_rounds(seen.timing)
    if isinstance(seen, Observation) and seen.randomness is not None:
        yield from _of_randomness(seen.randomness)
    for call in seen.calls:
        for group in GROUPS:
            for error in getattr(call, group).errors:
                yield from _of_tensor(error)


def _of_figures(measured: CompileTime | Timing | Memory | Energy | Costs | None) -> Iterator[str]:
    """Check the numbers of a record; None has none."""
    for field in fields(measured) if measured else ():
        value = getattr(measured, field.name)
        if isinstance(value, int | float) and not _is_plausible(value, field.name):
            yield f"{field.name} is {value:g}"


def _is_plausible(value: float, name: str) -> bool:
    if name.endswith(_MEASURED) and value:
        return _LEAST <= value <= _MOST
    return abs(value) <= _MOST


def _of_rounds(timing: Timing) -> Iterator[str]:
    eager, compiled = len(timing.eager_ns), len(timing.compiled_ns)
    if eager != compiled or eager < 2:
        yield f"it has {eager} eager_ns and {compiled} compiled_ns"
    for value in chain(timing.eager_ns, timing.compiled_ns):
        if not _LEAST <= value <= _MOST:
            yield f"a round took {value:g} ns"


def _of_randomness(drawn: Randomness) -> Iterator[str]:
    sides = drawn.eager, drawn.compiled
    groups = [len(side.spreads) for side in sides]
    if min(groups) < 1 or drawn.calls < 2 * max(groups):
        yield f"{drawn.calls} calls drew random numbers, in groups of {groups[0]} and {groups[1]}"
    figures = (drawn.mean_gap, drawn.own_gap, *(share.errors for share in drawn.shares))
    counts = (drawn.same_pairs, *(side.repeats for side in sides))
    if min(counts) < 0 or _is_negative(figures):
        yield "a figure of randomness is negative"


def _of_tensor(error: TensorError | SlimTensor) -> Iterator[str]:
    rows = error.rows if isinstance(error, TensorError) else 0
    if _is_negative((error.numel, rows)):
        yield f"{error.name[:80]!r} has {error.numel} elements in {rows} rows"
    if rows and error.dtype not in EPS:
        yield f"{error.name[:80]!r} has rows of the dtype {error.dtype[:80]!r}"


def _is_negative(values: Sequence[float]) -> bool:
    return any(value < 0 for value in values)
