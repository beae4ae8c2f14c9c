"""Texts of bounded length: their head, their tail, and how many bytes lie between.

A model chooses its messages, its names and what it prints, and it may choose 20 MB. A line of a
record holds at most :data:`LONGEST_LINE` bytes of UTF-8, and a text of several lines at most
:data:`LONGEST_TEXT`. What is cut reads ``… 19,983,500 bytes left out …``.

No cut separates the bytes of a character, or those of an escape sequence of a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

#: The most bytes of a line, and of a text.
LONGEST_LINE, LONGEST_TEXT = 2_048, 16_384
#: What stands for the bytes that were left out, and what must not be cut: it, and the escape
#: sequences of terminals. Those end in a letter (colours), or in a bell or ``ESC \\`` (titles,
#: links). ECMA-48, section 5.
_NOTICE = re.compile("… ([\\d,]+) bytes left out …".encode())
_WHOLE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -Z\\^-~])|" + _NOTICE.pattern
)
#: What begins this many bytes before a cut, or earlier, is not looked for.
_LONGEST_WHOLE = 256
#: A notice is shorter than this many bytes.
_LONGEST_NOTICE = 64


def bounded(text: str) -> str:
    """Return a text within both limits; the same text if it is.

    Args:
        text: One line or several.
    """
    if 4 * len(text) <= LONGEST_LINE:  # a character has at most four bytes
        return text
    if "\n" not in text:
        return shortened(text, LONGEST_LINE)
    lines = shortened(text, LONGEST_TEXT).split("\n")
    return "\n".join(shortened(line, LONGEST_LINE) for line in lines)


def shortened(text: str, most: int) -> str:
    """Return the head and the tail of a text that is longer than a number of bytes.

    Where several lines remain, the notice is a line of its own. It counts what earlier
    notices counted that it replaces.

    Args:
        text: One line or several.
        most: The most bytes of the result.
    """
    if 4 * len(text) <= most:
        return text
    data = text.encode(errors="replace")
    if len(data) <= most:
        return text
    head, tail = _ends(data, data, len(data), most, lines=None)
    middle = data[len(head) : len(data) - len(tail)]
    earlier = list(_NOTICE.finditer(middle))
    counted = sum(int(found[1].replace(b",", b"")) - len(found[0]) for found in earlier)
    return _joined(head, tail, len(middle) + counted)


def excerpt(first: bytes, last: bytes, size: int, most: int, *, lines: tuple[int, int]) -> str:
    """Return the head and the tail of a text, of which the first and last bytes are at hand.

    Args:
        first: The first bytes of the text: ``most``, or all if it has fewer.
        last: Its last bytes, as many.
        size: How many bytes it has.
        most: The most bytes of the result. Two thirds are the tail's.
        lines: The most lines of the head and of the tail.
    """
    head, tail = _ends(first, last, size, most, lines=lines)
    left_out = size - len(head) - len(tail)
    if left_out <= 0:
        return first.decode(errors="replace")
    return _joined(head, tail, left_out)


def _ends(
    first: bytes, last: bytes, size: int, most: int, *, lines: tuple[int, int] | None
) -> tuple[bytes, bytes]:
    """Return the head and the tail. Without ``lines``, two thirds of the bytes are the head's."""
    if size > most:
        room = most - _LONGEST_NOTICE
        of_head = (room if lines else 2 * room) // 3
        first = first[: _start(first, of_head)]
        last = last[_end(last, len(last) - room + of_head) :]
    if lines is not None:
        first = b"".join(first.splitlines(keepends=True)[: lines[0]])
        last = b"".join(last.splitlines(keepends=True)[-lines[1] :])
    return first, last


def _joined(head: bytes, tail: bytes, left_out: int) -> str:
    notice = f"… {left_out:,} bytes left out …"
    if b"\n" in head or b"\n" in tail.rstrip(b"\n"):
        notice = f"{notice}\n" if head.endswith(b"\n") else f"\n{notice}\n"
    return f"{head.decode(errors='replace')}{notice}{tail.decode(errors='replace')}"


def _start(data: bytes, cut: int) -> int:
    """Return the last place at or before a cut that is between characters and sequences."""
    cut = next((start for start, end in _whole(data, cut) if start < cut < end), cut)
    while 0 < cut < len(data) and _continues(data[cut]):
        cut -= 1
    return cut


def _end(data: bytes, cut: int) -> int:
    """Return the first place at or after a cut that is between characters and sequences."""
    cut = next((end for start, end in _whole(data, cut) if start < cut < end), cut)
    while cut < len(data) and _continues(data[cut]):
        cut += 1
    return cut


def _whole(data: bytes, cut: int) -> Iterator[tuple[int, int]]:
    """Yield where sequences near a cut start and end."""
    near = (max(cut - _LONGEST_WHOLE, 0), cut + _LONGEST_WHOLE)
    return (match.span() for match in _WHOLE.finditer(data, *near))


def _continues(byte: int) -> bool:
    """Whether a byte is a later one of a character of UTF-8."""
    return byte & 0xC0 == 0x80
