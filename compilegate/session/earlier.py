"""What cases took in an earlier run, so that their time and memory can be planned."""

from __future__ import annotations

import contextlib
import functools
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from compilegate.judging.completeness import BEFORE_COMPILING
from compilegate.records.case import Case, device_of
from compilegate.records.memory_needs import needed_bytes
from compilegate.records.observation import (
    EARLIER_ATTEMPTS,
    WAITING,
    WAITING_FOR_MEMORY,
    Stage,
)
from compilegate.records.performance import Memory
from compilegate.runs.reader import Reader, RunError

#: The newest files that are looked at for a run of the same cases.
_MOST_FILES = 20
#: What one case takes next to another, where no run says: training compiles a backward, autotuning
#: compiles many kernels to choose one, a slow model is large, and a case with marked dimensions
#: compiles once for all sizes.
_TRAINS, _AUTOTUNES, _SLOW, _MARKED = 2.0, 10.0, 3.0, 0.6


@dataclass(frozen=True)
class Taken:
    """What a case took.

    Attributes:
        seconds: Seconds of its observation.
        memory_bytes: Estimated from the peaks of its calls; 0 where they were not measured.
    """

    seconds: float
    memory_bytes: int = 0


class _Failure(msgspec.Struct):
    """The part of a failure that is needed here."""

    stage: Stage


class _Seen(msgspec.Struct):
    """The part of an observation that is needed here."""

    case: str
    spent_s: dict[str, float] = {}
    memory: Memory | None = None
    parameters: int = 0
    failure: _Failure | None = None

    @property
    def compiled(self) -> bool:
        """Whether it came as far as compiling. A case that did not build will take longer."""
        return self.failure is None or self.failure.stage not in BEFORE_COMPILING


@dataclass(frozen=True)
class Earlier:
    """What the cases of an earlier run took, and estimates for others.

    Attributes:
        family: Returns the family of a model, by which cases without a record are estimated.
        is_slow: Whether a model is slow.
        taken: What cases took, by id.
    """

    family: Callable[[str], str]
    is_slow: Callable[[str], bool]
    taken: Mapping[str, Taken] = field(default_factory=dict)

    def seconds(self, case: Case) -> float:
        """Return the seconds of a case: those that were seen, or an estimate."""
        if case.id in self.taken:
            return self.taken[case.id].seconds
        return self._weight(case) * self._seconds_of_weight(case)

    def memory_bytes(self, case: Case) -> int:
        """Return the memory of a case, as seen; 0 if it was not."""
        return self.taken[case.id].memory_bytes if case.id in self.taken else 0

    def most_memory_bytes(self, case: Case) -> int:
        """Return the most memory of the cases of its model, or else of its family; 0 if unknown."""
        return max((taken.memory_bytes for _, taken in self._alike(case)), default=0)

    def _weight(self, case: Case) -> float:
        weight = _TRAINS if case.phase == "train" else 1.0
        weight *= _AUTOTUNES if case.autotunes else 1.0
        weight *= _MARKED if case.dynamic == "marked" else 1.0
        return weight * (_SLOW if self.is_slow(case.model) else 1.0)

    def _seconds_of_weight(self, case: Case) -> float:
        known = self._alike(case) or self._groups.get((), [])
        each = [taken.seconds / self._weight(other) for other, taken in known]
        return statistics.median(each) if each else 1.0

    def _alike(self, case: Case) -> list[tuple[Case, Taken]]:
        """Return the cases of the same device and model, or else of the same family."""
        names = ("model", case.model), ("family", self.family(case.model))
        groups = (self._groups.get((case.device, *name), []) for name in names)
        return next(filter(None, groups), [])

    @functools.cached_property
    def _groups(self) -> Mapping[tuple[str, ...], list[tuple[Case, Taken]]]:
        """The cases by device and model, by device and family, and all of them."""
        groups = defaultdict[tuple[str, ...], list[tuple[Case, Taken]]](list)
        for name, taken in self.taken.items():
            case = Case.parse(name)
            groups[case.device, "model", case.model].append((case, taken))
            groups[case.device, "family", self.family(case.model)].append((case, taken))
            groups[()].append((case, taken))
        return groups


#: What is known where there is no earlier run, nor a zoo.
NOTHING_EARLIER = Earlier(family=str, is_slow=lambda _: False)


def read(path: Path) -> dict[str, Taken]:
    """Return what the cases of a run took, by id: of repeated ones the last time.

    Raises:
        RunError: The file is no run.
    """
    found = {}
    with Reader(path) as reader:
        for line in reader.lines():
            if line.kind == "observation" and _exists(line.case):
                seen = line.decode(_Seen)
                if seen.compiled:
                    found[line.case] = _taken(device_of(line.case), seen)
    return found


def newest(folder: Path, cases: Iterable[Case], *, whole: bool = False) -> Path | None:
    """Return the newest run file that planned some of these cases; None if there is none.

    Args:
        folder: The folder of runs.
        cases: The cases.
        whole: Leave out shards. A machine that observes one shard after the other, or several at
            once, would divide the cases differently for each.
    """
    wanted = {case.id for case in cases}
    paths = [*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")]
    paths = [path for path in paths if ".baseline." not in path.name]
    for path in sorted(paths, key=_modified, reverse=True)[:_MOST_FILES]:
        with contextlib.suppress(RunError), Reader(path) as reader:
            header = reader.header
            fits = wanted.intersection(header.planned) and not (whole and header.shard)
            if fits and any(reader.lines()):
                return path
    return None


def _modified(path: Path) -> float:
    """Return when a file was written; 0 of one that is gone, or of a link to nothing."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _exists(case_id: str) -> bool:
    try:
        Case.parse(case_id)
    except ValueError:
        return False
    return True


def _taken(device: str, seen: _Seen) -> Taken:
    memory_bytes, memory = 0, seen.memory
    if memory is not None:
        peaks = (memory.eager_peak_bytes, memory.compiled_peak_bytes, memory.compile_peak_bytes)
        memory_bytes = needed_bytes(device, parameters=seen.parameters, peak_bytes=max(peaks))
    others = (WAITING, WAITING_FOR_MEMORY, EARLIER_ATTEMPTS)
    own_s = sum(s for name, s in seen.spent_s.items() if name not in others)
    return Taken(own_s, memory_bytes)
