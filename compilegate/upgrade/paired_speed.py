"""Judges from pairs of processes whether compiled code became slower from one PyTorch to the next.

One pair screens a case: what it shows is *indicative*, since autotuning and memory layout differ
from process to process. A case that it shows slower is a *suspect*. It gets K fresh pairs, and only
those judge it. A case that they find slower, but not by far, gets K more; then all of them judge.
With θ = ln speedup of a process, D_k = θ_candidate,k − θ_baseline,k, the speedup has fallen only if

- the 95% t interval of D lies below zero,
- the mean of D is below minus the *floor*: 3%, or the machine's own spread if that is more,
- and it survives Benjamini-Hochberg at 5% over all suspects.

A speedup also falls when *eager* got faster, so compiled code is also compared with compiled code,
and eager with eager.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from compilegate.records import environment_changes
from compilegate.records.case import device_of
from compilegate.records.pair import Pace, Pair
from compilegate.records.statistics import BUSY, Shift, false_discovery, far_out, shift
from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.upgrade.speed_change import FLOOR, Kind, SpeedChange

#: Fresh pairs that a suspect gets by default.
PAIRS = 5
#: Fewer do not judge.
FEWEST_PAIRS = 3
#: The fewest differences between processes of one version that show the machine's spread.
_FEWEST_OWN = 8


def screen(pair: Pair) -> SpeedChange:
    """Return what one pair indicates."""
    if pair.baseline is None or pair.candidate is None:
        return SpeedChange(pair.case, "not measured", note=pair.failure or "one side was not timed")
    speedup, compiled, eager = map(_point, _changes(pair.baseline, pair.candidate))
    kind = _kind(speedup, compiled, eager, FLOOR)
    return SpeedChange(pair.case, kind, speedup=speedup, compiled=compiled, eager=eager)


def is_suspect(pair: Pair) -> bool:
    """Whether a screening pair shows the speedup fallen by the floor."""
    seen = screen(pair)
    return seen.speedup is not None and seen.speedup.mean <= -FLOOR


def own_spread(fresh: Iterable[Sequence[Pair]], one_version: Iterable[Pair] = ()) -> float:
    """Return how far apart two processes are on this machine if nothing changed.

    Tukey's outer fence, Q3 + 3·IQR, of differences between processes of one version; zero where
    there are too few of them.

    Args:
        fresh: The fresh pairs of each case. Two successive ones give a difference within each
            version.
        one_version: Further pairs, both of whose sides ran the same version.
    """
    differences = []
    for pairs in fresh:
        for side in ("baseline", "candidate"):
            paces = [math.log(pace.speedup) for pair in pairs if (pace := getattr(pair, side))]
            differences += [abs(a - b) for a, b in zip(paces[::2], paces[1::2], strict=False)]
    screened = (screen(pair).speedup for pair in one_version)
    differences += [abs(seen.mean) for seen in screened if seen]
    return far_out(differences) if len(differences) >= _FEWEST_OWN else 0.0


def judge(pairs: Iterable[Pair], *, one_version: bool = False) -> dict[str, SpeedChange]:
    """Judge all cases of a session together.

    Args:
        pairs: Those that screened, and the fresh ones of the suspects; each once.
        one_version: Whether both sides ran the same PyTorch. Screening pairs then also show the
            machine's spread.

    Returns:
        One for each case that was screened.
    """
    screening: dict[str, Pair] = {}
    fresh: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.number == 0:
            screening[pair.case] = pair
        else:
            fresh[pair.case].append(pair)
    suspects = {
        case: _undisturbed([p for p in fresh[case] if p.baseline and p.candidate])
        for case, pair in screening.items()
        if is_suspect(pair)
    }
    spread = own_spread(suspects.values(), screening.values() if one_version else ())
    found = {case: screen(pair) for case, pair in screening.items()}
    shifts = {case: _shifts(some) for case, some in suspects.items() if len(some) >= FEWEST_PAIRS}
    survives = dict(
        zip(shifts, false_discovery([seen[0].p_below for seen in shifts.values()]), strict=True)
    )
    for case, some in suspects.items():
        floor = max(FLOOR, spread / math.sqrt(len(some))) if some else FLOOR  # of a mean of them
        if case in shifts:
            judged = _judged(case, shifts[case], survives[case], floor, len(some))
            found[case] = _unless_disturbed(judged, some)
            continue
        failures = [p.failure for p in fresh[case] if p.failure]
        seen = found[case]
        why = failures[0] if failures else f"{FEWEST_PAIRS} fresh pairs are needed to judge it"
        found[case] = replace(seen, kind="unsettled", floor=floor, pairs=len(some), note=why)
    return found


def _judged(
    case: str, shifts: tuple[Shift, Shift, Shift], survives: bool, floor: float, pairs: int
) -> SpeedChange:
    speedup, compiled, eager = shifts
    kind, note = _kind(*shifts, floor), ""
    if speedup.mean < -floor and speedup.high >= 0:
        kind, note = "unsettled", "the interval reaches zero"
    elif speedup.mean < -floor and not survives:
        kind, note = "unsettled", "with this number of suspects it may be chance"
    elif kind == "slower" and not _moved(compiled, floor):
        note = "against eager: alone, neither moved by more than its spread"
    return SpeedChange(case, kind, True, speedup, compiled, eager, floor, pairs, note)


def _undisturbed(pairs: list[Pair]) -> list[Pair]:
    """Return the pairs of a GPU that was not throttled, if they suffice to judge; else all."""
    calm = [p for p in pairs if not any(s and s.disturbance for s in (p.baseline, p.candidate))]
    return calm if len(calm) >= FEWEST_PAIRS else pairs


def _unless_disturbed(judged: SpeedChange, pairs: Iterable[Pair]) -> SpeedChange:
    """Leave a slowdown unsettled if the processor was busy or the GPU was throttled."""
    paces = [pace for pair in pairs for pace in (pair.baseline, pair.candidate) if pace]
    note = next((pace.disturbance for pace in paces if pace.disturbance), "")
    busy = statistics.median(pace.busy for pace in paces)
    if not note and busy > BUSY and device_of(judged.case) == "cpu":
        note = f"others took {busy:.0%} of the processor"
    return replace(judged, kind="unsettled", note=note) if note and judged.fails else judged


def _kind(speedup: Shift, compiled: Shift, eager: Shift, floor: float) -> Kind:
    """Return what changed by more than the floor, with an interval that excludes zero."""
    relative, compiled_moved, eager_moved = (_moved(s, floor) for s in (speedup, compiled, eager))
    if relative < 0 and (compiled_moved < 0 or not (compiled_moved or eager_moved)):
        return "slower"  # however much faster eager became: compiled code is what is judged
    if relative > 0 and compiled_moved >= 0 and not eager_moved:
        return "faster"
    if eager_moved:
        return "both moved" if compiled_moved else "eager moved"
    return "unchanged"


def _moved(seen: Shift, floor: float) -> int:
    if abs(seen.mean) <= floor or seen.low <= 0 <= seen.high:
        return 0
    return -1 if seen.mean < 0 else 1


def _changes(baseline: Pace, candidate: Pace) -> tuple[float, float, float]:
    """Return how much better the candidate is: logarithms for speedup, compiled and eager."""
    return (
        math.log(candidate.speedup / baseline.speedup),
        math.log(baseline.compiled_ns / candidate.compiled_ns),
        math.log(baseline.eager_ns / candidate.eager_ns),
    )


def _shifts(pairs: Sequence[Pair]) -> tuple[Shift, Shift, Shift]:
    both = [_changes(p.baseline, p.candidate) for p in pairs if p.baseline and p.candidate]
    speedup, compiled, eager = (shift(list(column)) for column in zip(*both, strict=True))
    return speedup, compiled, eager


def _point(change: float) -> Shift:
    """Return the shift of a single difference, which has no interval and no test."""
    return Shift(mean=change, low=change, high=change, p_below=math.nan, count=1)


def speed_changes(baseline: Archive, candidate: Archive) -> dict[str, SpeedChange] | None:
    """Judge the pairs of two stored runs; None if they were not paired with each other.

    Raises:
        RunError: A line of the candidate's run is no record.
    """
    if candidate.header.baseline != files.name_of(baseline.path):
        return None
    sides = baseline.header.environment, candidate.header.environment
    pairs = (pair for case in candidate.cases for pair in candidate.pairs(case))
    return judge(pairs, one_version=not environment_changes.deciding(*sides))
