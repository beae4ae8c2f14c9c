"""Run files: one session in one environment as JSON lines, each record written when it is made.

``header, (observation | verdict | pair)*, closing``. The closing record says that every planned
case was observed. A line cut short by a crash is dropped and reported; everything before it counts.
"""

from __future__ import annotations

import contextlib
import difflib
import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import msgspec

from compilegate.records.observation import Observation
from compilegate.records.pair import Pair, latest
from compilegate.records.run import RECORD_TYPES, SCHEMA, Closing, Header, Record, encode
from compilegate.records.verdict import Verdict


class RunError(ValueError):
    """A run file that cannot be used; the text says which, where and what to do."""


@dataclass
class Run:
    """A stored run.

    Attributes:
        path: Its file.
        header: What was asked, of what, where.
        observations: By case id; the last of each.
        verdicts: By case id and aspect; the last of each.
        pairs: Two processes each, timed turn by turn; by case and number.
        closing: None if the run is incomplete.
        truncated: Whether the last line was cut short.
    """

    path: Path
    header: Header
    observations: dict[str, Observation] = field(default_factory=dict)
    verdicts: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    pairs: dict[tuple[str, int], Pair] = field(default_factory=dict)
    closing: Closing | None = None
    truncated: bool = False

    @property
    def missing(self) -> list[str]:
        """Planned cases that were not observed."""
        return [case for case in self.header.planned if case not in self.observations]


def read(path: Path) -> Run:
    """Read a run file; one that is kept compressed, ``NAME.jsonl.gz``, as it is.

    Raises:
        RunError: It does not exist, is not a run file, or was written by a newer version.
    """
    lines = b"".join(pieces(path)).split(b"\n")
    tail = lines.pop()
    run: Run | None = None
    pairs: list[Pair] = []
    for number, line in enumerate(lines, start=1):
        try:
            record = decode(line)
        except NewerError as error:
            raise RunError(f"{path}: {error}") from error
        except (ValueError, msgspec.MsgspecError) as error:
            raise RunError(f"{path}:{number}: not a record of a run: {error}") from error
        if isinstance(record, Header):
            run = run or Run(path, record)
        elif run is None:
            raise RunError(f"{path}:{number}: a run file begins with its header")
        elif isinstance(record, Observation):
            run.observations[record.case] = record
        elif isinstance(record, Verdict):
            run.verdicts[record.case, record.aspect] = record
        elif isinstance(record, Pair):
            pairs.append(record)
        else:
            run.closing = record
    if run is None:
        raise RunError(
            f"{path}: holds no header: not a run file, or cut short before its first line"
        )
    run.pairs = latest(pairs)
    run.truncated = bool(tail)
    return run


def pieces(path: Path) -> Iterator[bytes]:
    """What a run file holds; of one whose compressed form was cut short, what comes before.

    Raises:
        RunError: It cannot be read.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while piece := file.read1(2**20):
                yield piece
    except EOFError:
        return
    except (OSError, zlib.error) as error:
        said = getattr(error, "strerror", None) or error
        raise RunError(f"cannot read the run file {path}: {said}") from error


class NewerError(Exception):
    """A run file in a format newer than this version reads."""

    def __init__(self, schema: int) -> None:
        super().__init__(
            f"written by a newer compilegate (format {schema}, "
            f"this one reads up to {SCHEMA}): update compilegate"
        )


def decode(line: str | bytes) -> Record:
    """The record of one line.

    Raises:
        ValueError: It is not a record.
        NewerError: It is a header in a newer format.
    """
    content = msgspec.json.decode(line, type=dict[str, Any])
    name = content.pop("record", None)
    if name not in RECORD_TYPES:
        raise ValueError(f"unknown kind of record {name!r}")
    if content.get("schema", 0) > SCHEMA:
        raise NewerError(content["schema"])
    return msgspec.convert(content, RECORD_TYPES[name], strict=False)


#: Of run files, as they are written and as they may be kept.
_SUFFIXES = (".jsonl", ".jsonl.gz")


def name_of(path: Path) -> str:
    """The name of a run, of its file."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def find(name: str, directory: Path) -> Path:
    """The file of a run given by path or by name.

    Raises:
        RunError: There is none; the text names the nearest.
    """
    given = Path(name)
    beside = (directory / f"{name}{suffix}" for suffix in ("", *_SUFFIXES))
    for candidate in (given, *beside):
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
        path: The file; it is made with its first record.
        resumed: The run that it goes on with, whose last line may be cut short.
    """

    def __init__(self, path: Path, resumed: Run | None = None) -> None:
        self.path = path
        self._file: TextIO | None = None
        #: Why nothing more could be written, once that happened.
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
