"""Streams in memory that a model keeps: what was written to them, and where they stand."""

from __future__ import annotations

import hashlib
import io
from typing import Any, TypeGuard

#: The content of a longer stream is data, not state.
_LONGEST = 1 << 20
#: As much of the end of a stream is shown.
_SHOWN = 32


def state_of(value: object) -> tuple[Any, int] | None:
    """Return the content and the position of a stream in memory; None for any other value."""
    if not is_stream(value) or value.closed:
        return None
    content = value.getvalue()
    return (content, value.tell()) if len(content) <= _LONGEST else None


def is_stream(value: object) -> TypeGuard[io.StringIO | io.BytesIO]:
    """Whether a value is a stream in memory. A subclass may write elsewhere, too."""
    return type(value) in (io.StringIO, io.BytesIO)


def set_state(stream: Any, state: tuple[Any, int]) -> None:
    """Give a stream a state that :func:`state_of` returned."""
    content, position = state
    if stream.closed:
        return
    if stream.getvalue() != content:
        stream.seek(0)
        stream.truncate()
        stream.write(content)
    stream.seek(position)


def digest_of(value: object) -> str | None:
    """Return a short text for the state of a stream; None for any other value."""
    state = state_of(value)
    if state is None:
        return None
    content, position = state
    octets = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(octets).hexdigest()[:8]
    return f"at {position} of {len(content)}, ending in {content[-_SHOWN:]!r} ({digest})"
