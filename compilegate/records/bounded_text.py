"""Texts of bounded length: their head, their tail, and how many bytes lie between.

A model chooses its messages, its names and what it prints, and it may choose 20 MB. A line of a
record holds at most :data:`LONGEST_LINE` bytes of UTF-8, and a text of several lines at most
:data:`LONGEST_TEXT`. What is cut reads ``… 19,983,500 bytes left out …``.

No cut separates the bytes of a character, or those of an escape sequence of a terminal.
"""

from __future__ import annotations

import re

#: The most bytes of a line, and of a text.
LONGEST_LINE, LONGEST_TEXT = 2_048, 16_384
#: Escape sequences of terminals: those that end in a letter (colours), and those that end in a bell
#: or in ``ESC \\`` (titles, links). ECMA-48, section 5.
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -Z\\^-~])")
#: A sequence that begins this many bytes before a cut, or earlier, is not looked for.
_LONGEST_ESCAPE = 256
#: The notice is shorter than this many bytes.
_NOTICE = 64


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

    Where the text has several lines, the notice is a line of its own.

    Args:
        text: One line or several.
        most: The most bytes of the result.
    """
    if 4 * len(text) <= most:
        return text
    data = text.encode(errors="replace")
    if len(data) <= most:
        return text
    return excerpt(data[:most], data[-most:], len(data), most)


def excerpt(
    first: bytes, last: bytes, size: int, most: int, *, lines: tuple[int, int] | None = None
) -> str:
    """Return the head and the tail of a text, of which the first and last bytes are at hand.

    Args:
        first: The first bytes of the text: ``most``, or all if it has fewer.
        last: Its last bytes, as many.
        size: How many bytes it has.
        most: The most bytes of the result. Two thirds are the head's, without ``lines``.
        lines: The most lines of the head and of the tail, where the tail is of more interest: it
            then has two thirds.
    """
    room = most - _NOTICE
    of_head = (room if lines else 2 * room) // 3
    head = first[: _start(first, of_head)] if size > most else first
    tail = last[_end(last, len(last) - room + of_head) :] if size > most else last
    if lines is not None:
        head = b"".join(head.splitlines(keepends=True)[: lines[0]])
        tail = b"".join(tail.splitlines(keepends=True)[-lines[1] :])
    if len(head) + len(tail) >= size:
        return first.decode(errors="replace")
    notice = f"… {size - len(head) - len(tail):,} bytes left out …"
    if b"\n" in first or b"\n" in last:
        notice = f"{notice}\n" if head.endswith(b"\n") else f"\n{notice}\n"
    return f"{head.decode(errors='replace')}{notice}{tail.decode(errors='replace')}"


def _start(data: bytes, cut: int) -> int:
    """Return the last place at or before a cut that is between characters and sequences."""
    spans = (match.span() for match in _ESCAPE.finditer(data, max(cut - _LONGEST_ESCAPE, 0)))
    cut = next((start for start, end in spans if start < cut < end), cut)
    while 0 < cut < len(data) and _continues(data[cut]):
        cut -= 1
    return cut


def _end(data: bytes, cut: int) -> int:
    """Return the first place at or after a cut that is between characters and sequences."""
    spans = (match.span() for match in _ESCAPE.finditer(data, max(cut - _LONGEST_ESCAPE, 0)))
    cut = next((end for start, end in spans if start < cut < end), cut)
    while cut < len(data) and _continues(data[cut]):
        cut += 1
    return cut


def _continues(byte: int) -> bool:
    """Whether a byte is a later one of a character of UTF-8."""
    return byte & 0xC0 == 0x80
