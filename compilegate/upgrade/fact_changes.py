"""What changed in a case from one run to another, by its facts: one rule for each kind of fact.

The rules apply whatever the verdicts are. Two runs can have different breaks although budgets allow
both, and an error that is within its bounds can still have grown.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import truediv

from compilegate.judging.aspects import ASPECTS
from compilegate.records.observation import Capture, GraphBreak, Place, written
from compilegate.records.performance import Timing
from compilegate.records.recompilations import recompilations
from compilegate.records.statistics import paired_speedup
from compilegate.records.wording import counted
from compilegate.records.wording import memory as size
from compilegate.runs.slim import SlimObservation
from compilegate.upgrade import error_growth, work_growth
from compilegate.upgrade.comparable import incomparable
from compilegate.upgrade.verdict_changes import EAGER, SPEED, Change
from compilegate.upgrade.work_growth import COMPILE_WORK

#: The aspect that judges a group of tensors.
ASPECT_OF: dict[str, str] = {
    aspect.tensors: aspect.name for aspect in ASPECTS.values() if aspect.tensors
}
#: Peak memory that fell by this share, and by more than these bytes, is better.
MEMORY_SHARE, MEMORY_BYTES = 0.1, 2**20
#: Reports show a compile time that changed by this factor, and a speed that changed by this share.
COMPILE_FACTOR, SPEED_SHARE = 1.3, 0.03


def of_differences(then: SlimObservation, now: SlimObservation) -> Iterator[Change]:
    """Find differences from eager that are new or gone."""
    for group, aspect in ASPECT_OF.items():
        known, seen = _differences(then, group), _differences(now, group)
        if new := [text for key, text in seen.items() if key not in known]:
            yield Change(aspect, "worse", f"differs from eager: {new[0]}", tuple(new[1:]))
        if lost := [text for key, text in known.items() if key not in seen]:
            yield Change(aspect, "better", f"no longer differs: {lost[0]}", tuple(lost[1:]))


def of_eager(then: SlimObservation, now: SlimObservation) -> Iterator[Change]:
    """Find calls that eager itself raises in, and tensors that it computes less exactly."""
    for index, (earlier, call) in enumerate(zip(then.calls, now.calls, strict=False)):
        if call.raised and not earlier.raised:
            yield Change(EAGER, "eager", f"eager raises now, in call {index + 1}: {call.raised}")
        elif earlier.raised and not call.raised:
            text = f"eager raised before, in call {index + 1}: {earlier.raised}"
            yield Change(EAGER, "better", text)
    for group, growths in error_growth.eager_growth(then, now).items():
        text = f"{_tensors(growths)} of {group} further from the reference in eager itself"
        yield Change(EAGER, "eager", f"{text}: {_worst(growths)}")


def eager_regressions(then: SlimObservation, now: SlimObservation) -> list[Change] | None:
    """Return how eager itself got worse; None where the observations cannot be compared."""
    if then.failure is not None or now.failure is not None or incomparable(then, now):
        return None
    return [change for change in of_eager(then, now) if change.effect == "eager"]


def _differences(digest: SlimObservation, group: str) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for index, call in enumerate(digest.calls):
        for item in getattr(call, group).differences:
            text = f"{item.where}: {item.what}, eager {item.eager}, compiled {item.compiled}"
            found.setdefault((item.where, item.what), f"call {index + 1}: {text}")
    return found


def of_numerics(then: SlimObservation, now: SlimObservation, *, half: bool) -> Iterator[Change]:
    """Find tensors that moved away from the reference, or closer to it, beyond noise."""
    changed = error_growth.error_changes(then, now, half=half)
    for group, growths in changed.further.items():
        text = f"{_tensors(growths)} further from the reference: {_worst(growths)}"
        yield Change(ASPECT_OF[group], "worse", text)
    for group, growths in changed.closer.items():
        worst = _worst(growths)
        text = (
            f"{_tensors(growths)} closer to the reference: {worst.name} at call "
            f"{worst.call + 1}: {worst.figure} {worst.now:.3g} → {worst.before:.3g} of its scale"
        )
        yield Change(ASPECT_OF[group], "better", text)


def _worst(growths: Iterable[error_growth.Growth]) -> error_growth.Growth:
    return max(growths, key=lambda growth: growth.now / (growth.allowed or 1.0))


def _tensors(growths: Iterable[error_growth.Growth]) -> str:
    count = len({growth.name for growth in growths})
    return f"{count} tensor{'s' * (count != 1)}"


def of_breaks(then: Capture, now: Capture) -> Iterator[Change]:
    """Find graph breaks that are new or gone, by reason, file and function: lines move."""
    known, seen = breaks(then), breaks(now)
    if new := [found for key, found in seen.items() if key not in known]:
        lines = [str(found) for found in new]
        text = f"{len(new)} new graph break{'s' * (len(new) != 1)}: {lines[0]}"
        yield Change("graph_breaks", "worse", text, tuple(lines[1:]))
    if lost := [found for key, found in known.items() if key not in seen]:
        lines = [str(found) for found in lost]
        text = f"{len(lost)} fewer graph break{'s' * (len(lost) != 1)}: {lines[0]}"
        kept = {(found.reason, found.file) for found in seen.values()}
        tables = [{"reason": reason, "place": place} for reason, place in sorted(kept)]
        yield Change("graph_breaks", "better", text, tuple(lines[1:]), {"graph_breaks": tables})


def breaks(capture: Capture) -> dict[tuple[str, str, str], GraphBreak]:
    """Return graph breaks and frames left to eager, by reason, file and function.

    PyTorch's id of a break replaces its reason, because wordings change.
    """
    found: dict[tuple[str, str, str], GraphBreak] = {}
    for item in (*capture.breaks, *capture.fallbacks):
        file, function = _name(item.place) if item.place else ("", "")
        # Runs of earlier versions name the function in which Dynamo resumes.
        found.setdefault((item.id or item.reason, file, written(function)), item)
    return found


def of_recompilations(then: Capture, now: Capture) -> Iterator[Change]:
    """Compare the numbers of recompilations, and whether a recompile limit was hit."""
    if now.limits and not then.limits:
        yield Change("recompiles", "worse", f"recompile limit hit: {now.limits[0]}", now.limits[1:])
    if then.limits and not now.limits:
        yield Change("recompiles", "better", f"recompile limit no longer hit: {then.limits[0]}")
    earlier, later = _by_function(then), _by_function(now)
    before, total = sum(earlier.values()), sum(later.values())
    if before == total:
        return
    text = f"{before} → {counted(total, 'recompilation')}"
    if total < before:
        yield Change("recompiles", "better", f"{text}: its budget can be lower by {before - total}")
        return
    grown = later - earlier
    (file, function), _ = grown.most_common(1)[0]
    reasons = tuple(
        f"at call {item.call + 1}: {item.guard}"
        for item in now.compilations
        if item.reason and _name(item.code) == (file, function)
    )
    yield Change("recompiles", "worse", f"{text}, most in {file} in {function}", reasons)


def _by_function(capture: Capture) -> Counter[tuple[str, str]]:
    """Return how often code was compiled again, by file and function."""
    again: Counter[tuple[str, str]] = Counter()
    for (code, _), count in recompilations(capture.compilations).items():
        again[_name(code)] += count
    return again


def _name(code: Place) -> tuple[str, str]:
    """Return file and function. The user's file has no folder: it depends on the project's root.

    Runs of earlier versions hold no folder either.
    """
    file = code.file.rpartition("/")[2] if code.owner == "model" else code.file
    return file, code.function


def of_memory(then: SlimObservation, now: SlimObservation) -> Iterator[Change]:
    """Find a lower peak of memory, with the budget that would keep it."""
    before, memory = then.memory, now.memory
    if before is None or memory is None or not memory.eager_peak_bytes:
        return
    peaks = before.compiled_peak_bytes, memory.compiled_peak_bytes
    saved = peaks[0] - peaks[1]
    text = f"peak {size(peaks[0])} → {size(peaks[1])}"
    eager = f", eager {size(before.eager_peak_bytes)} → {size(memory.eager_peak_bytes)}"
    if saved <= max(MEMORY_SHARE * peaks[0], MEMORY_BYTES):
        return
    proposed = round(1.1 * peaks[1] / memory.eager_peak_bytes, 2)
    yield Change("memory", "better", text + eager, proposal={"max_memory_ratio": proposed})


def of_compile_work(
    then: SlimObservation, now: SlimObservation, allowed: float
) -> Iterator[Change]:
    """Compare the Python calls of compiling, which do not depend on the machine.

    Args:
        then: The baseline's observation.
        now: The candidate's.
        allowed: The growth that is no change, as a share.
    """
    before, work = then.compile_work, now.compile_work
    if before is None or work is None:
        return
    if why := work_growth.incomparable(before, work):
        yield Change(COMPILE_WORK, "note", why)
        return
    found = work_growth.growth(before, work, allowed)
    if found.kind != "same":
        yield Change(COMPILE_WORK, "worse" if found.kind == "more" else "better", found.text)


def of_times(then: SlimObservation, now: SlimObservation) -> Iterator[Change]:
    """Compare times of two processes, which are never more than *indicative*."""
    if then.cold and now.cold and then.compile_time and now.compile_time:
        seconds = then.compile_time.total_s, now.compile_time.total_s
        if min(seconds) > 0 and max(seconds) > COMPILE_FACTOR * min(seconds):
            text = f"compiles in {seconds[1]:.1f} s, {seconds[0]:.1f} s before (indicative)"
            yield Change("compile_time", "note", text)
    if then.timing and now.timing and _may_differ(then.timing, now.timing):
        ours = paired_speedup(then.timing.eager_ns, then.timing.compiled_ns)
        theirs = paired_speedup(now.timing.eager_ns, now.timing.compiled_ns)
        apart = theirs.high < ours.low or ours.high < theirs.low
        if apart and abs(theirs.value / ours.value - 1) > SPEED_SHARE:
            compiled = _median_ratio(then.timing.compiled_ns, now.timing.compiled_ns)
            eager = _median_ratio(then.timing.eager_ns, now.timing.eager_ns)
            text = (
                f"speedup {ours.value:.2f} → {theirs.value:.2f} (indicative: one process each; "
                f"compiled calls take {compiled:+.0%}, eager ones {eager:+.0%})"
            )
            yield Change(SPEED, "note", text)


def _may_differ(before: Timing, now: Timing) -> bool:
    """Whether the medians differ enough to compute the intervals; nearly always they do not."""
    ours, theirs = (_median_speedup(timing) for timing in (before, now))
    return abs(theirs / ours - 1) > SPEED_SHARE / 2


def _median_speedup(timing: Timing) -> float:
    """Return the upper median of the ratios, which is precise enough here."""
    ratios: list[float] = sorted(map(truediv, timing.eager_ns, timing.compiled_ns))
    return ratios[len(ratios) // 2]


def _median_ratio(before: Iterable[float], now: Iterable[float]) -> float:
    return statistics.median(now) / statistics.median(before) - 1
