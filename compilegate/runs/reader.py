"""The one reader of run files: it recognises the record of each line and decodes it.

A run file begins with its header. A last line that a crash cut short is left out; every other line
must be a record. Errors name the file and the line.
"""

from __future__ import annotations

import gzip
import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, TypeVar, cast

import msgspec

from compilegate.records.run import RECORD_TYPES, SCHEMA, Closing, Header, Record

#: How a line begins that :func:`compilegate.records.run.encode` wrote.
_BEGINNING = re.compile(rb'\{"record":"([a-z]+)","case":"([^"\\]+)"')

Content = TypeVar("Content")


class RunError(ValueError):
    """A run file cannot be used; the text names the file and the reason."""


class _Start(msgspec.Struct):
    """The fields that identify a record: its kind, its case, the version of the format."""

    record: str
    case: str = ""
    schema: int = 0


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(content: Any) -> msgspec.json.Decoder[Any]:
    if content not in _DECODERS:
        _DECODERS[content] = msgspec.json.Decoder(content, strict=False)
    return _DECODERS[content]


class Line(NamedTuple):
    """A complete line of a run file.

    Attributes:
        path: The file.
        number: From 1.
        offset: Bytes of the file before it.
        text: The line without its newline.
        kind: The kind of its record.
        case: The case that it is about; empty in a header and a closing record.
    """

    path: Path
    number: int
    offset: int
    text: bytes
    kind: str
    case: str

    def decode(self, content: type[Content]) -> Content:
        """Decode the record, or as much of it as a slim type has.

        Raises:
            RunError: The line is no such record.
        """
        try:
            return cast("Content", _decoder(content).decode(self.text))
        except msgspec.MsgspecError as error:
            raise no_record(self.path, self.number, error) from error

    def record(self) -> Record:
        """Decode the complete record.

        Raises:
            RunError: The line is no record.
        """
        return self.decode(RECORD_TYPES[self.kind])


def decode(text: str) -> Record:
    """Decode a line that did not come from a file.

    Raises:
        ValueError: It is no record.
    """
    return cast("Record", _decoder(RECORD_TYPES[_kind_and_case(text.encode())[0]]).decode(text))


def no_record(path: Path, number: int, why: object) -> RunError:
    """Return the error of a line that is no record."""
    return RunError(
        f"{path}:{number}: not a record of a run: {why}; "
        "name a file that compilegate wrote, or run the session again"
    )


def _kind_and_case(text: bytes) -> tuple[str, str]:
    """Recognise the record of a line.

    Raises:
        ValueError: No run file has such a line.
    """
    found = _BEGINNING.match(text)
    if found and (kind := found[1].decode()) in RECORD_TYPES:
        return kind, found[2].decode()
    start = _decoder(_Start).decode(text)
    if start.record not in RECORD_TYPES:
        raise ValueError(f"unknown kind of record {start.record!r}")
    if start.record not in ("header", "closing") and not start.case:
        raise ValueError("it names no case")
    if start.schema > SCHEMA:
        raise _NewerError(start.schema)
    return start.record, start.case


class _NewerError(Exception):
    """The file is in a format that a newer compilegate writes."""

    def __init__(self, schema: int) -> None:
        super().__init__(
            f"written by a newer compilegate (format {schema}, "
            f"this one reads up to {SCHEMA}): update compilegate"
        )


class Reader:
    """A run file, open for reading. Use it as a context.

    Attributes:
        path: The file.
        header: The plan of the run and its environment.
        closing: The closing record, once all lines were read; None if the run is incomplete.
        truncated: Whether the last line was cut short, once all lines were read.

    Raises:
        RunError: It does not exist, is no run file, or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.closing: Closing | None = None
        self.truncated = False
        self._file = _open(path)
        try:
            self.header = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def lines(self) -> Iterator[Line]:
        """Yield the lines between header and closing record, in the order of the file.

        Raises:
            RunError: A line is no record.
        """
        for line in self._all_lines():
            if line.kind == "closing":
                self.closing = line.decode(Closing)
            elif line.kind != "header":  # a second header changes nothing
                yield line

    def at(self, offset: int, length: int, number: int) -> Iterator[Line]:
        """Yield the lines of a part of the file that was read before.

        Args:
            offset: Where the part begins.
            length: Its bytes; it ends with a complete line.
            number: The number of its first line.
        """
        for text in os.pread(self._file.fileno(), length, offset).split(b"\n")[:-1]:
            yield self._line(text, number, offset)
            number, offset = number + 1, offset + len(text) + 1

    def _read_header(self) -> Header:
        for line in self._all_lines():
            if line.kind != "header":
                raise RunError(f"{self.path}:{line.number}: a run file begins with its header")
            return line.decode(Header)
        raise RunError(f"{self.path}: has no header: it is not a run file, or it was cut short")

    def _all_lines(self) -> Iterator[Line]:
        self._file.seek(0)
        offset = 0
        for number, text in enumerate(self._file, start=1):
            if not text.endswith(b"\n"):
                self.truncated = True
                return
            yield self._line(text[:-1], number, offset)
            offset += len(text)

    def _line(self, text: bytes, number: int, offset: int) -> Line:
        try:
            kind, case = _kind_and_case(text)
        except _NewerError as error:
            raise RunError(f"{self.path}: {error}") from error
        except ValueError as error:  # msgspec's and the codec's errors are such
            raise no_record(self.path, number, error) from error
        return Line(self.path, number, offset, text, kind, case)


def _open(path: Path) -> BinaryIO:
    """Open a run file so that any part of it can be read; a compressed one is unpacked first."""
    try:
        if path.suffix != ".gz":
            return path.open("rb", buffering=2**20)
        content = cast("BinaryIO", tempfile.TemporaryFile(buffering=2**20))
        try:
            content.writelines(_unpacked(path))
        except BaseException:
            content.close()
            raise
        return content
    except (OSError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise RunError(f"cannot read the run file {path}: {reason}") from error


def _unpacked(path: Path) -> Iterator[bytes]:
    """Yield the content of a compressed file; where that was cut short, what comes before."""
    with gzip.open(path) as file:
        try:
            while piece := file.read1(2**20):
                yield piece
        except EOFError:
            return
