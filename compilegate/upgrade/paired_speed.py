"""Whether compiled code became slower from one PyTorch to the next, as pairs of processes tell.

One pair screens: what it shows is *indicative*, since autotuning and memory layout differ from
process to process. A case that it shows slower is a *suspect*, gets K fresh pairs, and is judged by
those alone. What they find slower, but not by far, gets K more and is judged by all of them.
With θ = ln speedup of a process, D_k = θ_candidate,k − θ_baseline,k, the speedup has fallen only if

- the 95% t interval of D lies below zero,
- the mean of D is below minus the *floor*: 3%, or the machine's own spread if that is more,
- and it survives Benjamini-Hochberg at 5% over all suspects.

A speedup also falls when *eager* got faster, so compiled is held against compiled, and eager
against eager, too.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from compilegate.records.case import device_of
from compilegate.records.pair import Pace, Pair
from compilegate.records.statistics import BUSY, Shift, false_discovery, far_out, shift
from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.upgrade.comparison import Cause, Slowdown

#: Smaller changes are of no consequence, whatever their significance. In ln, as all shifts here.
FLOOR = math.log(1.03)
#: Fresh pairs that a suspect gets by default.
PAIRS = 5
#: Fewer do not judge.
FEWEST_PAIRS = 3
#: Slower by far: the whole interval lies this many floors below zero.
_FAR = 2
#: From so many differences between processes of one version the machine's spread is taken.
_FEWEST_OWN = 8

Kind = Literal[
    "slower",  # compiled code is slower: judged, and the only one that fails
    "faster",
    "eager moved",
    "both moved",
    "unchanged",
    "unsettled",  # a suspect that its pairs neither confirm nor clear
    "not measured",
]


@dataclass(frozen=True)
class SpeedChange:
    """What the pairs of one case come to.

    Shifts are differences of logarithms, candidate against baseline; negative is worse.

    Attributes:
        case: Its id.
        kind: What was found.
        judged: Whether fresh pairs decided; else it is indicative and fails nothing.
        speedup: D.
        compiled: Compiled code against compiled code.
        eager: Eager against eager.
        floor: What counts as a change.
        pairs: Fresh pairs that were timed on both sides.
        note: Why it was not measured, or what keeps it unsettled.
    """

    case: str
    kind: Kind
    judged: bool = False
    speedup: Shift | None = None
    compiled: Shift | None = None
    eager: Shift | None = None
    floor: float = FLOOR
    pairs: int = 0
    note: str = ""

    @property
    def fails(self) -> bool:
        """Whether fresh pairs have shown compiled code slower."""
        return self.judged and self.kind == "slower"

    @property
    def wants_more(self) -> bool:
        """Whether that is no reason to stop an upgrade before as many pairs again agree."""
        return self.fails and self.speedup is not None and self.speedup.high > -_FAR * self.floor

    @property
    def change(self) -> str:
        """By how much what changed."""
        if self.speedup is None or self.compiled is None or self.eager is None:
            return self.note
        return (
            f"speedup {_percent(self.speedup)}, compiled {_percent(self.compiled)}, "
            f"eager {_percent(self.eager)}"
        )

    @property
    def summary(self) -> str:
        """One line: what was found, by how much, on what evidence."""
        if self.speedup is None:
            return f"not compared: {self.note}"
        on = "in one pair, indicative"
        if self.judged:
            least = f"at least {math.expm1(self.floor):.1%} counts"
            on = f"over {self.pairs} fresh pairs, {least}"
        note = f" ({self.note})" if self.note else ""
        return f"{_WORDS[self.kind]}: {self.change} {on}{note}"


_WORDS: dict[Kind, str] = {
    "slower": "compiled code is slower",
    "faster": "compiled code is faster",
    "eager moved": "eager moved, compiled code did not",
    "both moved": "eager and compiled code both moved",
    "unchanged": "no difference",
    "unsettled": "neither confirmed nor cleared",
    "not measured": "not compared",
}


def _percent(seen: Shift) -> str:
    value = f"{math.expm1(seen.mean):+.1%}"
    if seen.count < 2:
        return value
    return f"{value} [{math.expm1(seen.low):+.1%}, {math.expm1(seen.high):+.1%}]"


def screen(pair: Pair) -> SpeedChange:
    """What one pair indicates."""
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
    """How far apart two processes are on this machine where nothing changed.

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
        one_version: Whether both sides ran the same PyTorch: then screening pairs tell the
            machine's spread, too.

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
        kind, note = "unsettled", "among so many suspects it may be chance"
    elif kind == "slower" and not _moved(compiled, floor):
        note = "against eager: alone, neither moved by more than its spread"
    return SpeedChange(case, kind, True, speedup, compiled, eager, floor, pairs, note)


def _undisturbed(pairs: list[Pair]) -> list[Pair]:
    """Those of a GPU that was not held back, if they are enough to judge; else all."""
    calm = [p for p in pairs if not any(s and s.disturbance for s in (p.baseline, p.candidate))]
    return calm if len(calm) >= FEWEST_PAIRS else pairs


def _unless_disturbed(judged: SpeedChange, pairs: Iterable[Pair]) -> SpeedChange:
    """Slower on a processor that others keep busy, or a GPU held back, says nothing of the code."""
    paces = [pace for pair in pairs for pace in (pair.baseline, pair.candidate) if pace]
    note = next((pace.disturbance for pace in paces if pace.disturbance), "")
    busy = statistics.median(pace.busy for pace in paces)
    if not note and busy > BUSY and device_of(judged.case) == "cpu":
        note = f"others took {busy:.0%} of the processor"
    return replace(judged, kind="unsettled", note=note) if note and judged.fails else judged


def _kind(speedup: Shift, compiled: Shift, eager: Shift, floor: float) -> Kind:
    """What moved, of shifts that moved by more than the floor and whose intervals miss zero."""
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
    """Speedup, compiled and eager: logarithms of how much better the candidate is."""
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
    """One difference: no interval, and no test."""
    return Shift(mean=change, low=change, high=change, p_below=math.nan, count=1)


_CAUSES: dict[Kind, Cause] = {
    "slower": "compiled slower",
    "faster": "compiled faster",
    "eager moved": "eager moved",
    "both moved": "both moved",
    "unsettled": "unsettled",
}


def as_slowdown(seen: SpeedChange) -> Slowdown | None:
    """A change of speed as comparisons take it; None where nothing was measured."""
    if seen.speedup is None:
        return None
    fell = [-100 * math.expm1(x) for x in (seen.speedup.mean, seen.speedup.high, seen.speedup.low)]
    return Slowdown(
        case=seen.case,
        change_percent=fell[0],
        low=fell[1],
        high=fell[2],
        judged=seen.judged,
        cause=_CAUSES.get(seen.kind, "no change"),
    )


def slowdowns_of(baseline: Archive, candidate: Archive) -> dict[str, Slowdown]:
    """What the pairs of two stored runs come to; none where they were not paired with each other.

    Raises:
        RunError: A line of the candidate's run is no record.
    """
    if candidate.header.baseline != files.name_of(baseline.path):
        return {}
    before, now = baseline.header.environment, candidate.header.environment
    pairs = (pair for case in candidate.cases for pair in candidate.pairs(case))
    judged = judge(pairs, one_version=before.versions == now.versions)
    slowdowns = ((case, as_slowdown(seen)) for case, seen in judged.items())
    return {case: slowdown for case, slowdown in slowdowns if slowdown is not None}
