"""The one reader of run files: it recognises the record of each line and decodes it.

A run file begins with its header. A last line that a crash cut short is left out; every other line
must be a record, unchanged since it was written. Errors name the file, the line and the byte.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn, Self, TypeVar

from compilegate.records import checksum
from compilegate.records.case import Case
from compilegate.records.run import (
    FIRST_WITH_CHECKSUMS,
    RECORD_TYPES,
    Closing,
    Header,
    Record,
)
from compilegate.runs import decoding
from compilegate.runs.decoding import NewerFormatError, NoRecordError
from compilegate.runs.opening import UnpackError, open_content

#: A longer line is no record. Those of the largest models have a few megabytes.
MOST_LINE_BYTES = 2**28

Content = TypeVar("Content")


class RunError(ValueError):
    """A run file cannot be used; the text names the file and the reason."""


class UnreadableRunError(RunError):
    """A file is no run, or it was damaged, or another program keeps it from being read."""


class Line(NamedTuple):
    """A complete line of a run file.

    Attributes:
        path: The file.
        number: From 1.
        offset: Bytes of the file before it.
        text: The line without its newline.
        kind: The kind of its record.
        case: The case that it is about; empty in a header and a closing record.
        schema: In a header, the version of the format; 0 in other lines.
    """

    path: Path
    number: int
    offset: int
    text: bytes
    kind: str
    case: str
    schema: int

    def decode(self, content: type[Content]) -> Content:
        """Decode the record, or as much of it as a slim type has.

        Raises:
            RunError: The line is no such record.
        """
        try:
            record = decoding.decode(self.text, content, self.case)
            decoding.check_figures(record)
        except NoRecordError as error:
            _refuse(self.path, self.number, self.offset, self.text, error)
        return record

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
    content = text.encode()
    start = decoding.recognise(content)
    return decoding.decode(content, RECORD_TYPES[start.record], start.case)


def _refuse(path: Path, number: int, offset: int, text: bytes, error: NoRecordError) -> NoReturn:
    """Refuse a line that is no record.

    Args:
        path: The file.
        number: The number of the line.
        offset: Bytes of the file before the line.
        text: The line.
        error: What is wrong with it.

    Raises:
        RunError: Always.
    """
    way_out = "name a file that compilegate wrote, or run the session again"
    if number > 1 and path.suffix != ".gz":
        case = decoding.case_named_in(text) or "the run"
        way_out = (
            f"delete the line (sed -i {number}d {shlex.quote(str(path))}) and continue with "
            f"--resume, which observes the missing part of {case} again"
        )
    raise UnreadableRunError(
        f"{path}:{number}: not a record of a run: {error}, at byte {offset + error.byte}; {way_out}"
    ) from error


def parse_case(path: Path, number: int, case_id: str) -> Case:
    """Return the case of an id in a run file.

    Args:
        path: The file.
        number: The number of a line that has the id.
        case_id: The id.

    Raises:
        RunError: This version of compilegate has no such case.
    """
    try:
        return Case.parse(case_id)
    except ValueError as error:
        raise UnreadableRunError(f"{path}:{number}: {error}") from error


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

        Raises:
            RunError: The file was changed in the meantime.
        """
        part = os.pread(self._file.fileno(), length, offset)
        if len(part) < length:
            raise UnreadableRunError(
                f"{self.path} became shorter while compilegate read it: read it again"
            )
        for text in part.split(b"\n")[:-1]:
            yield self._line(text, number, offset)
            number, offset = number + 1, offset + len(text) + 1

    def _read_header(self) -> Header:
        for line in self._all_lines():
            if line.kind != "header":
                raise UnreadableRunError(
                    f"{self.path}:{line.number}: a run file begins with its header"
                )
            return line.decode(Header)
        raise UnreadableRunError(
            f"{self.path}: has no header: it is not a run file, or it was cut short before any "
            "result; delete it, and start the session again"
        )

    def _all_lines(self) -> Iterator[Line]:
        self._file.seek(0)
        offset, is_checked = 0, False
        for number, text in enumerate(iter(self._next_line, b""), start=1):
            if not text.endswith(b"\n"):
                if len(text) > MOST_LINE_BYTES:
                    why = NoRecordError(f"the line is longer than {MOST_LINE_BYTES} bytes")
                    _refuse(self.path, number, offset, text, why)
                self.truncated = True
                return
            line = self._line(text[:-1], number, offset)
            is_checked |= self._has_checksum(line, is_required=is_checked)
            yield line
            offset += len(text)

    def _next_line(self) -> bytes:
        return self._file.readline(MOST_LINE_BYTES + 1)

    def _line(self, text: bytes, number: int, offset: int) -> Line:
        try:
            if checksum.state(text) == "wrong":
                raise NoRecordError(
                    "it was changed after it was written: its CRC-32 does not match"
                )
            decoding.check_text(text)
            start = decoding.recognise(text)
        except NewerFormatError as error:
            raise UnreadableRunError(f"{self.path}: {error}") from error
        except NoRecordError as error:
            _refuse(self.path, number, offset, text, error)
        return Line(self.path, number, offset, text, start.record, start.case, start.schema)

    def _has_checksum(self, line: Line, *, is_required: bool) -> bool:
        """Return whether a line has a checksum.

        Args:
            line: The line.
            is_required: Whether a line before it has one.

        Raises:
            RunError: It needs one and has none, or it has none and can be misread.
        """
        if checksum.state(line.text) == "right":
            return True
        try:
            if is_required or line.schema >= FIRST_WITH_CHECKSUMS:
                raise NoRecordError("its checksum is missing")
            decoding.check_fields(line.text)
        except NoRecordError as error:
            _refuse(self.path, line.number, line.offset, line.text, error)
        return False


def _open(path: Path) -> BinaryIO:
    try:
        return open_content(path)
    except UnpackError as error:
        raise UnreadableRunError(
            f"cannot read the run file {path}: {error}; name an undamaged copy of it"
        ) from error
    except OSError as error:
        raise UnreadableRunError(
            f"cannot read the run file {path}: {error.strerror or error}"
        ) from error
