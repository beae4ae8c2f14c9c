"""Formats text for all reports."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

#: Where a command begins in a sentence: after a colon.
_COMMAND = re.compile(r": (?=(?:\S*/)?(?:python[\d.]*|pytest|compilegate) )")

#: Where an expression may be broken: before what is called or indexed, or after that.
_BRACKET = re.compile(r"(?<=\S)[\[(]|(?<=[\])])\.")


def cut(line: str, width: int) -> str:
    """Return a line of at most ``width`` characters, with an ellipsis where it was longer."""
    return line if len(line) <= width else f"{line[: width - 1]}…"


def wrapped(line: str, width: int) -> list[str]:
    """Return a sentence in lines of at most ``width`` characters, later ones further indented.

    A word stays whole, such as a case id, and so does a command that ends the sentence: it is a
    line of its own, to be copied. An expression that is too long, such as a guard, is broken
    before a bracket.
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
    whole = (text for line in lines for text in _broken(line, width, indent))
    return [*whole, *(f"{indent}{text}" for text in command)]


def _broken(line: str, width: int, indent: str) -> Iterator[str]:
    """Yield a line in parts that fit, as far as it has brackets."""
    while len(line) > width:
        places = [found.start() for found in _BRACKET.finditer(line, len(indent) + 1, width + 1)]
        if not places or not line[: places[-1]].strip():
            break
        yield line[: places[-1]]
        line = indent + line[places[-1] :]
    yield line


def count(number: int, what: str) -> str:
    """Return a number with its noun: ``1 case``, ``2 cases``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return seconds in the unit that a person would use: ``40 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < 99:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
