"""Formats text for all reports."""

from __future__ import annotations

import re
import textwrap

#: Where a command begins in a sentence: after a colon.
_COMMAND = re.compile(r": (?=(?:\S*/)?(?:python[\d.]*|pytest|compilegate) )")


def cut(line: str, width: int) -> str:
    """Return a line of at most ``width`` characters, with an ellipsis where it was longer."""
    return line if len(line) <= width else f"{line[: width - 1]}…"


def wrapped(line: str, width: int) -> list[str]:
    """Return a sentence in lines of at most ``width`` characters, later ones further indented.

    A word stays whole, such as a case id, and so does a command that ends the sentence: it is a
    line of its own, to be copied.
    """
    if len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    sentence, *command = _COMMAND.split(line, maxsplit=1)
    lines = textwrap.wrap(
        f"{sentence}:" if command else sentence,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
    return [*lines, *(f"{indent}{text}" for text in command)]


def count(number: int, what: str) -> str:
    """Return a number with its noun: ``1 case``, ``2 cases``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return seconds in the unit that a person would use: ``40 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < 99:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
