"""A run file read case by case: an index of its lines is kept, their content is not.

Two runs of ten thousand cases would not fit into the memory that a small CI machine has, so a case
is decoded when it is asked for. What counts is the same as in ``runs/files``: the last
record of a case and aspect, and every line but one that was cut short.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TypeVar, cast

import msgspec

from compilegate.records.observation import Observation
from compilegate.records.pair import Pair, latest
from compilegate.records.run import RECORD_TYPES, Closing, Header
from compilegate.records.verdict import Verdict
from compilegate.runs import files
from compilegate.runs.digest import Digest, Judged
from compilegate.runs.files import RunError

#: How a line begins that :func:`compilegate.records.run.encode` wrote.
_BEGINNING = re.compile(rb'\{"record":"([a-z]+)","case":"([^"\\]+)"')

_DIGEST = msgspec.json.Decoder(Digest, strict=False)
_JUDGED = msgspec.json.Decoder(Judged)
_PAIR = msgspec.json.Decoder(Pair, strict=False)


class _Kind(msgspec.Struct):
    """What a line is about, where its beginning does not tell."""

    record: str
    case: str = ""


_KIND = msgspec.json.Decoder(_Kind)

Content = TypeVar("Content")


@dataclass(slots=True)
class _Span:
    """Lines that stand together and are about one case."""

    number: int
    offset: int
    length: int


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


def _opened(path: Path) -> BinaryIO:
    """A run file to read anywhere in; of one that is kept compressed, its content."""
    if path.suffix != ".gz":
        return path.open("rb", buffering=2**20)
    content = cast("BinaryIO", tempfile.TemporaryFile(buffering=2**20))
    try:
        content.writelines(files.pieces(path))
    except BaseException:
        content.close()
        raise
    content.seek(0)
    return content


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
        self._spans: dict[str, list[_Span]] = {}
        self._observed: set[str] = set()
        try:
            self._file = _opened(path)
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
        return tuple(dict.fromkeys((*self.header.planned, *self._observed_in_order())))

    def _observed_in_order(self) -> Iterator[str]:
        return (case for case in self._spans if case in self._observed)

    @property
    def missing(self) -> list[str]:
        """Planned cases that were not observed."""
        return [case for case in self.header.planned if not self.observed(case)]

    def observed(self, case: str) -> bool:
        """Whether the run holds an observation of a case."""
        return case in self._observed

    def seen(self, case: str) -> Seen:
        """What the run holds of a case.

        Raises:
            RunError: A line is no record of a run.
        """
        observation: tuple[int, memoryview] | None = None
        verdicts: dict[str, Judged] = {}
        for number, line in self._lines(case):
            match self._kind(line, number)[0]:
                case "observation":
                    observation = number, line
                case "verdict":
                    verdict = self._decode(_JUDGED, number, line)
                    verdicts[verdict.aspect] = verdict
        digest = self._decode(_DIGEST, *observation) if observation else None
        return Seen(case in self._planned or digest is not None, digest, verdicts)

    def pairs(self, case: str) -> Collection[Pair]:
        """The pairs of processes that timed a case, in a run that was paired: those that count.

        Raises:
            RunError: A line is no record of a run.
        """
        return latest(
            self._decode(_PAIR, number, line)
            for number, line in self._lines(case)
            if self._kind(line, number)[0] == "pair"
        ).values()

    def raw(self, case: str) -> Iterator[str]:
        """The lines of a case as they stand in the file."""
        return (str(line, "utf-8") for _, line in self._lines(case))

    def _lines(self, case: str) -> Iterator[tuple[int, memoryview]]:
        for span in self._spans.get(case, ()):
            text = os.pread(self._file.fileno(), span.length, span.offset)
            view, number, start = memoryview(text), span.number, 0
            while (end := text.find(b"\n", start)) >= 0:
                yield number, view[start:end]
                number, start = number + 1, end + 1

    def _decode(
        self, decoder: msgspec.json.Decoder[Content], number: int, line: memoryview
    ) -> Content:
        try:
            return decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise self._no_record(number, error) from error

    def _no_record(self, number: int, why: object) -> RunError:
        return RunError(f"{self.path}:{number}: not a record of a run: {why}")

    def _index(self) -> None:
        header: Header | None = None
        span, offset = _Span(0, 0, 0), 0
        again = b"\n"  # how another verdict on the same case begins
        for number, text in enumerate(self._file, start=1):
            start, offset = offset, offset + len(text)
            if not text.endswith(b"\n"):
                self.truncated = True
                break
            if text.startswith(again):
                span.length += len(text)
                continue
            kind, case = self._kind(text, number)
            again = b"\n"
            if kind == "header":
                header = header or self._header(text, number)
            elif header is None:
                raise RunError(f"{self.path}:{number}: a run file begins with its header")
            elif kind == "closing":
                self.closing = self._closing(text, number)
            else:
                span = _Span(number, start, len(text))
                self._spans.setdefault(case, []).append(span)
                again = b'{"record":"verdict","case":"%s"' % case.encode()
                if kind == "observation":
                    self._observed.add(case)
        if header is None:
            raise RunError(
                f"{self.path}: holds no header: not a run file, or cut short before its first line"
            )
        self.header = header

    def _kind(self, text: bytes | memoryview, number: int) -> tuple[str, str]:
        found = _BEGINNING.match(text)
        if found and (kind := found[1].decode()) in RECORD_TYPES:
            return kind, found[2].decode()
        try:
            record = _KIND.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._no_record(number, error) from error
        if record.record not in RECORD_TYPES:
            raise self._no_record(number, f"unknown kind of record {record.record!r}")
        if record.record not in ("header", "closing") and not record.case:
            raise self._no_record(number, "it names no case")
        return record.record, record.case

    def _header(self, text: bytes, number: int) -> Header:
        try:
            record = files.decode(bytes(text).decode())
        except files.NewerError as error:
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
