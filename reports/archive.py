"""A run file read case by case: an index of its lines is kept, their content is not.

Two runs of ten thousand cases would not fit into the memory that a small CI machine has, so a case
is decoded when it is asked for. What counts is the same as in :mod:`reports.store`: the last
record of a case and aspect, and every line but one that was cut short.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self, TypeVar

import msgspec

from fixtures.observation import RECORD_TYPES, Closing, Header, Observation, Verdict
from reports import store
from reports.digest import Digest, Judged
from reports.store import RunError

#: How a line begins that :func:`fixtures.observation.encode` wrote.
_BEGINNING = re.compile(rb'\{"record":"(observation|verdict)","case":"([^"\\]+)"')

_DIGEST = msgspec.json.Decoder(Digest, strict=False)
_JUDGED = msgspec.json.Decoder(Judged)


class _Kind(msgspec.Struct):
    """What a line is about, where its beginning does not tell."""

    record: str
    case: str = ""


_KIND = msgspec.json.Decoder(_Kind)

Content = TypeVar("Content")


class _Line(NamedTuple):
    """Where a record stands."""

    number: int
    offset: int
    length: int


@dataclass(slots=True)
class _Lines:
    """The records of a case: its last observation, its verdicts in order, and any others."""

    observation: _Line | None = None
    verdicts: list[_Line] = field(default_factory=list)
    others: list[_Line] = field(default_factory=list)

    @property
    def every(self) -> list[_Line]:
        """All of them."""
        observed = [self.observation] if self.observation else []
        return sorted((*observed, *self.verdicts, *self.others))


@dataclass(frozen=True)
class Seen:
    """What one run holds of one case.

    Attributes:
        planned: Whether the run was to observe it.
        digest: What was measured, None where it was not observed.
        verdicts: By aspect.
    """

    planned: bool
    digest: Digest | None = None
    verdicts: Mapping[str, Judged] = field(default_factory=dict)

    @classmethod
    def of(cls, observation: Observation, verdicts: Iterable[Verdict]) -> Seen:
        """What a session that is still running holds of a case."""
        judged = (msgspec.convert(v, Judged, from_attributes=True) for v in verdicts)
        return cls(True, Digest.of(observation), {verdict.aspect: verdict for verdict in judged})


class Archive:
    """A stored run, open for reading. Use it as a context.

    Attributes:
        path: Its file.
        header: What was asked, of what, where.
        closing: None if the run is incomplete.
        truncated: Whether the last line was cut short.

    Raises:
        RunError: It does not exist, is no run file, or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: Header
        self.closing: Closing | None = None
        self.truncated = False
        self._lines: dict[str, _Lines] = {}
        try:
            self._file: BinaryIO = path.open("rb", buffering=2**20)
        except OSError as error:
            raise RunError(f"cannot read the run file {path}: {error.strerror}") from error
        try:
            self._index()
        except BaseException:
            self._file.close()
            raise
        self._planned = frozenset(self.header.planned)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def cases(self) -> Sequence[str]:
        """Every case that was planned, and any that was observed besides."""
        observed = (case for case, lines in self._lines.items() if lines.observation)
        return tuple(dict.fromkeys((*self.header.planned, *observed)))

    @property
    def missing(self) -> list[str]:
        """Planned cases that were not observed."""
        return [case for case in self.header.planned if not self.observed(case)]

    def observed(self, case: str) -> bool:
        """Whether the run holds an observation of a case."""
        return case in self._lines and self._lines[case].observation is not None

    def seen(self, case: str) -> Seen:
        """What the run holds of a case.

        Raises:
            RunError: A line is no record of a run.
        """
        lines = self._lines.get(case, _Lines())
        texts = dict(zip(lines.every, self._read(lines.every), strict=True))
        digest = None
        if lines.observation is not None:
            digest = self._decode(_DIGEST, lines.observation, texts[lines.observation])
        verdicts = (self._decode(_JUDGED, line, texts[line]) for line in lines.verdicts)
        by_aspect = {verdict.aspect: verdict for verdict in verdicts}
        planned = case in self._planned or digest is not None
        return Seen(planned, digest, by_aspect)

    def raw(self, case: str) -> Iterator[str]:
        """The lines of a case as they stand in the file, but for observations made anew."""
        lines = self._lines.get(case, _Lines())
        for text in self._read(lines.every):
            yield bytes(text).decode()

    def _read(self, lines: Sequence[_Line]) -> Iterator[memoryview]:
        """The lines, read in one go where nothing else stands between them."""
        if not lines:
            return
        start = lines[0].offset
        end = lines[-1].offset + lines[-1].length
        if end - start == sum(line.length + 1 for line in lines) - 1:
            text = memoryview(os.pread(self._file.fileno(), end - start, start))
            for line in lines:
                yield text[line.offset - start : line.offset - start + line.length]
        else:
            for line in lines:
                yield memoryview(os.pread(self._file.fileno(), line.length, line.offset))

    def _decode(
        self, decoder: msgspec.json.Decoder[Content], line: _Line, text: memoryview
    ) -> Content:
        try:
            return decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise self._no_record(line.number, error) from error

    def _no_record(self, number: int, why: object) -> RunError:
        return RunError(f"{self.path}:{number}: not a record of a run: {why}")

    def _index(self) -> None:
        offset = 0
        header: Header | None = None
        for number, text in enumerate(self._file, start=1):
            if not text.endswith(b"\n"):
                self.truncated = True
                break
            line = _Line(number, offset, len(text) - 1)
            offset += len(text)
            kind, case = self._kind(text, number)
            if kind == "header":
                header = header or self._header(text, number)
            elif header is None:
                raise RunError(f"{self.path}:{number}: a run file begins with its header")
            elif kind == "observation":
                self._lines.setdefault(case, _Lines()).observation = line
            elif kind == "verdict":
                self._lines.setdefault(case, _Lines()).verdicts.append(line)
            elif kind == "closing":
                self.closing = self._closing(text, number)
            else:
                self._lines.setdefault(case, _Lines()).others.append(line)
        if header is None:
            raise RunError(
                f"{self.path}: holds no header: not a run file, or cut short before its first line"
            )
        self.header = header

    def _kind(self, text: bytes, number: int) -> tuple[str, str]:
        if found := _BEGINNING.match(text):
            return found[1].decode(), found[2].decode()
        try:
            kind = _KIND.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._no_record(number, error) from error
        if kind.record not in RECORD_TYPES:
            raise self._no_record(number, f"unknown kind of record {kind.record!r}")
        if kind.record not in ("header", "closing") and not kind.case:
            raise self._no_record(number, "it names no case")
        return kind.record, kind.case

    def _header(self, text: bytes, number: int) -> Header:
        try:
            record = store.decode(text.decode())
        except store.NewerError as error:
            raise RunError(f"{self.path}: {error}") from error
        except (ValueError, msgspec.MsgspecError) as error:
            raise self._no_record(number, error) from error
        assert isinstance(record, Header)
        return record

    def _closing(self, text: bytes, number: int) -> Closing:
        try:
            return msgspec.json.decode(text, type=Closing, strict=False)
        except msgspec.MsgspecError as error:
            raise self._no_record(number, error) from error
