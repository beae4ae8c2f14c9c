"""Run files: one session in one environment as JSON lines, each record written when it is made.

``header, (observation | verdict | pair | attribution)*, closing``. The closing
record shows that every planned case was observed. A line cut short by a crash is dropped and
reported; everything before it counts.
"""

from __future__ import annotations

import contextlib
import difflib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from compilegate.records.attribution import Attribution
from compilegate.records.observation import Observation
from compilegate.records.pair import Pair, latest
from compilegate.records.run import Closing, Header, Record, encode
from compilegate.records.verdict import Verdict
from compilegate.runs.reader import Reader, RunError


@dataclass
class Run:
    """A stored run, decoded completely.

    Attributes:
        path: Its file.
        header: What was asked, of what, where.
        observations: By case id; the last of each.
        verdicts: By case id and aspect; the last of each.
        pairs: Two processes each, timed alternately; by case and number.
        attributions: What makes cases worse, by case id; the last of each.
        closing: None if the run is incomplete.
        truncated: Whether the last line was cut short.
    """

    path: Path
    header: Header
    observations: dict[str, Observation] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    pairs: dict[tuple[str, int], Pair] = field(default_factory=dict)
    attributions: dict[str, Attribution] = field(default_factory=dict)
    closing: Closing | None = None
    truncated: bool = False

    @property
    def missing(self) -> list[str]:
        """Planned cases that were not observed."""
        return [case for case in self.header.planned if case not in self.observations]


def read(path: Path) -> Run:
    """Read a run file, compressed (``NAME.jsonl.gz``) or not.

    Raises:
        RunError: It does not exist, is not a run file, or was written by a newer version.
    """
    with Reader(path) as reader:
        run, pairs = Run(path, reader.header), list[Pair]()
        for line in reader.lines():
            match line.record():
                case Observation() as observation:
                    run.observations[line.case] = observation
                case Verdict() as verdict:
                    run.verdicts[line.case, verdict.aspect] = verdict
                case Pair() as pair:
                    pairs.append(pair)
                case Attribution() as attribution:
                    run.attributions[line.case] = attribution
    run.pairs = latest(pairs)
    run.closing, run.truncated = reader.closing, reader.truncated
    return run


#: The suffixes of run files: as they are written, and compressed.
_SUFFIXES = (".jsonl", ".jsonl.gz")


def name_of(path: Path) -> str:
    """Return the name of a run, given its file."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def find(name: str, directory: Path) -> Path:
    """Return the file of a run that is given by path or by name.

    Raises:
        RunError: There is no such run; the text names the nearest one.
    """
    given = Path(name)
    named = (directory / f"{name}{suffix}" for suffix in ("", *_SUFFIXES))
    for candidate in (given, *named):
        if candidate.is_file():
            return candidate
    if given.is_dir():
        raise RunError(f"{name} is a directory; give a run in it by its path")
    known = sorted({name_of(path) for end in _SUFFIXES for path in directory.glob(f"*{end}")})
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known) or 'none'}"
    raise RunError(f"no run {name!r} in {directory}; {hint}")


class Writer:
    """Writes a run file, a record at a time.

    Args:
        path: The file; the first record creates it.
        resumed: The run to continue, whose last line may be cut short.
    """

    def __init__(self, path: Path, resumed: Run | None = None) -> None:
        self.path = path
        self._file: TextIO | None = None
        #: Why writing stopped; empty while it works.
        self.trouble = ""
        if resumed is not None and resumed.truncated:
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)

    def write(self, record: Record | str) -> None:
        """Append one record (or its line) and flush it to disk. A full disk is remembered."""
        if self.trouble:
            return
        line = record if isinstance(record, str) else encode(record)
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("a")
            self._file.write(line + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            self.trouble = f"{self.path}: {error.strerror}"

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a disk that was full still is
                self._file.close()
            self._file = None
