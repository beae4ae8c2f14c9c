"""Reads runs as nights: one series of readings for each case and figure on one machine."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compilegate.history.figures import FIGURES, Figure, Reading, was_disturbed
from compilegate.records import environment_changes
from compilegate.records.case import device_of
from compilegate.records.environment import Environment
from compilegate.records.run import Header
from compilegate.records.wording import counted
from compilegate.runs import files
from compilegate.runs.archive import Archive, CaseRecord
from compilegate.runs.reader import RunError

#: The fewest cases whose mean is followed.
ENOUGH_CASES = 8
#: The share of cases that the mean leaves out at either end, so that no single case moves it.
_TRIMMED = 0.2


@dataclass(frozen=True, eq=False)
class Night:
    """One run.

    Attributes:
        path: Its file.
        header: What was asked, where.
    """

    path: Path
    header: Header

    @property
    def date(self) -> str:
        """The day on which it began, in UTC: ``2026-11-18``."""
        return self.header.created[:10]


@dataclass(frozen=True)
class Place:
    """What runs must have in common for their figures to compare.

    Attributes:
        device: ``cpu`` or ``cuda``.
        hardware: The device, and its host.
        tier: The tier of the device's cases.
        backend: The compiler backend.
        settings: Seed and TF32, where they are not the defaults.
    """

    device: str
    hardware: str
    tier: str
    backend: str
    settings: str = ""

    @classmethod
    def of(cls, header: Header, device: str) -> Place:
        """Return the place where a run observed the cases of a device."""
        kinds = dict.fromkeys((device, "cpu"))
        found = [header.environment.device(kind) for kind in kinds]
        hardware = " in ".join(" ".join(_words(each.hardware)) for each in found if each)
        settings = [f"seed {header.seed}"] if header.seed else []
        settings += ["TF32"] if header.tf32 else []
        return cls(
            device,
            hardware or "an unknown machine",
            header.tier.get(device, "none"),
            header.backend,
            ", ".join(settings),
        )

    def __str__(self) -> str:
        parts = [f"{self.hardware}", f"tier {self.tier}", f"backend {self.backend}"]
        return ", ".join([*parts, *([self.settings] if self.settings else [])])


def _words(hardware: Mapping[str, str]) -> Iterator[str]:
    """Yield the words for a device: ``NVIDIA H200``, ``16 cores``."""
    for name, text in hardware.items():
        if name in ("cpu", "cuda"):
            yield text
        elif name == "cores" and "cpu" in hardware:
            yield f"({text} cores)"
        elif name == "vector instructions":
            yield f"[{text}]"


@dataclass(frozen=True)
class Series:
    """A figure of one case over the nights of one place.

    Attributes:
        place: Where it was observed.
        case: The case's id; empty for the mean over all cases.
        figure: What was measured.
        nights: The nights that have a reading, in the order of time.
        readings: One for each night. The mean over all cases is relative to each case's median.
        cases: How many cases a mean is taken of.
    """

    place: Place
    case: str
    figure: Figure
    nights: Sequence[Night]
    readings: Sequence[Reading]
    cases: int = 1


@dataclass
class History:
    """What is known of many nights.

    Attributes:
        nights: All runs that could be read, in the order of time.
        series: All series, those of a place together.
        notes: What a reader should know: runs that are damaged, partial or left out.
    """

    nights: list[Night] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def paths_of(names: Iterable[str], runs: Path) -> list[Path]:
    """Return the run files that names stand for: files, names of runs, or all files of a folder.

    Args:
        names: What the command line names.
        runs: The folder of run files.

    Raises:
        RunError: There is no such run, or a folder has none.
    """
    found: list[Path] = []
    for name in names:
        if Path(name).is_dir():
            ends = ("*.jsonl", "*.jsonl.gz")
            here = sorted(path for end in ends for path in Path(name).rglob(end))
            if not here:
                raise RunError(f"{name} has no run file (NAME.jsonl or NAME.jsonl.gz)")
            found += here
        else:
            found.append(files.find(name, runs))
    return list(dict.fromkeys(path.resolve() for path in found))


def read(paths: Sequence[Path]) -> History:
    """Read runs as far as they can be read.

    A run of the PyTorch in use, which belongs to a paired session, is left out: its environment is
    not that of the night.
    """
    history = History()
    found: dict[tuple[Place, str, str, str], list[tuple[Night, Reading]]] = {}
    opened: list[tuple[Night, dict[str, CaseRecord]]] = []
    for path in paths:
        try:
            with Archive(path) as run:
                records = {case: run.seen(case) for case in run.cases}
        except RunError as error:
            history.notes.append(f"left out: {error}")
            continue
        if run.missing:
            history.notes.append(
                f"partial: {path} lacks {len(run.missing)} of {len(run.header.planned)} planned "
                "cases; the others are used"
            )
        opened.append((Night(path, run.header), records))
    opened = _without_baselines(opened, history.notes)
    for night, records in sorted(opened, key=lambda one: (one[0].header.created, one[0].path)):
        history.nights.append(night)
        for case, record in records.items():
            place = Place.of(night.header, device_of(case))
            for name, figure in FIGURES.items():
                if (reading := figure.of(record)) is not None:
                    key = (place, case, name, reading.basis)
                    found.setdefault(key, []).append((night, reading))
    history.notes += _disturbed([record for _, records in opened for record in records.values()])
    for (place, case, name, _), taken in found.items():
        nights, readings = zip(*taken, strict=True)
        history.series.append(Series(place, case, FIGURES[name], nights, readings))
    history.series += common(history.series)
    return history


def _disturbed(records: Sequence[CaseRecord]) -> Iterator[str]:
    if disturbed := sum(map(was_disturbed, records)):
        yield (
            f"left out: the times of {disturbed} of {counted(len(records), 'observed case')}, "
            "since the machine was busy or the GPU throttled"
        )


def _without_baselines(
    opened: list[tuple[Night, dict[str, CaseRecord]]], notes: list[str]
) -> list[tuple[Night, dict[str, CaseRecord]]]:
    names = {
        night.path.parent / files.name_of(Path(night.header.baseline))
        for night, _ in opened
        if night.header.baseline
    }
    kept = [one for one in opened if one[0].path.parent / files.name_of(one[0].path) not in names]
    if left := len(opened) - len(kept):
        notes.append(
            f"left out: {counted(left, 'run')} of the PyTorch in use, of sessions that compared two"
        )
    return kept


def common(series: Iterable[Series]) -> Iterator[Series]:
    """Yield the mean of each figure over the cases of a place, in logarithms.

    What many cases share shows in their mean before it shows in any of them.
    """
    alike: dict[tuple[Place, str], list[Series]] = {}
    for one in series:
        if one.figure.is_common:
            alike.setdefault((one.place, one.figure.name), []).append(one)
    for (place, name), members in alike.items():
        by_night: dict[Night, list[float]] = {}
        for one in members:
            logs = [math.log(reading.value) for reading in one.readings]
            middle = statistics.median(logs)
            for night, log in zip(one.nights, logs, strict=True):
                by_night.setdefault(night, []).append(log - middle)
        taken = {night: logs for night, logs in by_night.items() if len(logs) >= ENOUGH_CASES}
        if taken:
            nights = sorted(taken, key=lambda night: (night.header.created, night.path))
            readings = [Reading(math.exp(_trimmed_mean(taken[night]))) for night in nights]
            yield Series(place, "", FIGURES[name], nights, readings, len(members))


def _trimmed_mean(values: Sequence[float]) -> float:
    left_out = int(_TRIMMED * len(values))
    return statistics.fmean(sorted(values)[left_out : len(values) - left_out])


def environment_changed(before: Night, now: Night) -> str:
    """Return what differs between the environments of two nights, in one phrase; empty if nothing.

    Only differences that can change what a case computes or costs count.
    """
    ours: Environment = before.header.environment
    theirs: Environment = now.header.environment
    text = environment_changes.headline(environment_changes.deciding(ours, theirs))
    revisions = (before.header.revision, now.header.revision)
    if revisions[0] != revisions[1]:
        named = " → ".join(revision or "unknown" for revision in revisions)
        text = ", ".join(filter(None, (text, f"compilegate {named}")))
    return text
