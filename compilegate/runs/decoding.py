"""Decodes one line of a run file, or says why it is no record and at which byte."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import msgspec

from compilegate.records.run import RECORD_TYPES, SCHEMA, Header
from compilegate.runs.plausibility import implausible

#: The form of a case id: a model and at least five settings. A stored run may come from a version
#: whose axes have other values.
_ID = rb"[a-z0-9_.]+(?:-[a-z0-9_]+){5,}"
_CASE_ID = re.compile(_ID.decode())
#: How a line begins that :func:`compilegate.records.run.encode` wrote.
_BEGINNING = re.compile(rb'\{"record":"([a-z]+)","case":"(' + _ID + rb')"')
#: The byte that msgspec names.
_BYTE = re.compile(r" \(byte (\d+)\)$")
#: Characters of a message that a line can make longer.
_MOST_TEXT = 200

Content = TypeVar("Content")


class NoRecordError(ValueError):
    """A line is no record of a run. The text says why.

    Attributes:
        byte: The byte of the line where that shows; 0 where the whole line is meant.
    """

    def __init__(self, why: object, byte: int = 0) -> None:
        text = str(why)
        if found := _BYTE.search(text):
            text, byte = text[: found.start()], int(found[1])
        shown = "".join(c if c.isprintable() else "?" for c in text[:_MOST_TEXT])
        super().__init__(shown + "…" * (len(text) > _MOST_TEXT))
        self.byte = byte


class NewerFormatError(ValueError):
    """The file is in a format that a newer compilegate writes."""

    def __init__(self, schema: int) -> None:
        super().__init__(
            f"written by a newer compilegate (format {schema}, "
            f"this one reads up to {SCHEMA}): update compilegate"
        )


class Start(msgspec.Struct):
    """The fields that identify a record: its kind, its case, the version of the format."""

    record: str
    case: str = ""
    schema: int = 0


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoded(text: bytes, content: Any) -> Any:
    if content not in _DECODERS:
        _DECODERS[content] = msgspec.json.Decoder(content, strict=False)
    try:
        return _DECODERS[content].decode(text)
    except RecursionError as error:
        raise NoRecordError("it is nested too deeply") from error
    except ValueError as error:  # msgspec's and the codec's errors are such
        raise NoRecordError(error) from error


def recognise(text: bytes) -> Start:
    """Recognise the record of a line.

    Raises:
        NoRecordError: No run file has such a line.
        NewerFormatError: It is the header of a newer format.
    """
    if not text.strip():
        raise NoRecordError("the line is blank")
    found = _BEGINNING.match(text)
    if found and (kind := found[1].decode()) in RECORD_TYPES:
        return Start(kind, found[2].decode())
    start = cast("Start", _decoded(text, Start))
    if start.record not in RECORD_TYPES:
        raise NoRecordError(f"unknown kind of record {start.record!r}")
    if start.schema > SCHEMA:
        raise NewerFormatError(start.schema)
    if start.record in ("header", "closing"):
        return Start(start.record, schema=start.schema)
    if not start.case:
        raise NoRecordError("it names no case")
    _check_ids([start.case])
    return start


def case_named_in(text: bytes) -> str:
    """Return the case that a damaged line seems to be about; empty where it shows none."""
    found = re.search(rb'"case":"(' + _ID + rb')"', text[:_MOST_TEXT])
    return found[1].decode() if found else ""


def check_text(text: bytes) -> None:
    """Refuse a line that is no UTF-8: decoders skip what they do not need.

    Raises:
        NoRecordError: It is none.
    """
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise NoRecordError("invalid UTF-8", error.start) from error


def check_fields(text: bytes) -> None:
    """Refuse a line that two decoders may read differently, although its JSON is correct.

    Raises:
        NoRecordError: A field occurs twice.
    """
    try:
        json.loads(text, object_pairs_hook=_fields)
    except RecursionError as error:
        raise NoRecordError("it is nested too deeply") from error
    except NoRecordError:
        raise
    except ValueError as error:
        raise NoRecordError(getattr(error, "msg", error), getattr(error, "pos", 0)) from error


def _fields(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise NoRecordError(f"it has the field {name!r} twice")
        found[name] = value
    return found


def decode(text: bytes, content: type[Content], case: str) -> Content:
    """Decode a record, or as much of it as a slim type has.

    Args:
        text: The line.
        content: The record's type, or its slim type.
        case: The case that the line was recognised by.

    Raises:
        NoRecordError: It is no such record.
    """
    record = cast("Content", _decoded(text, content))
    if getattr(record, "case", "") != case:
        raise NoRecordError("it names two cases")
    if isinstance(record, Header):
        _check_ids(record.planned)
    return record


def check_figures(record: object) -> None:
    """Refuse a record with figures that rules and reports cannot compute with.

    Raises:
        NoRecordError: No observing process writes them.
    """
    if why := implausible(record):
        raise NoRecordError(why)


def _check_ids(cases: Sequence[str]) -> None:
    for case in cases:
        if not _CASE_ID.fullmatch(case):
            raise NoRecordError(f"malformed case id {case[:_MOST_TEXT]!r}")
