"""Streams that clean what is written to them, line by line."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from compilegate.output.visible import COLOUR, visible

#: What a terminal's writer may begin with: a line that replaces the one before.
_REWRITE = re.compile(rf"(?:{COLOUR})*\r")
#: How many characters of an unfinished line are remembered. A command to a runner is shorter.
_REMEMBERED = 64


class CleanStream:
    """A text stream that cleans each line, also one that is written in parts.

    All attributes but those that write are the stream's own.

    Args:
        stream: Where the text goes.
        colours: Whether to keep the colours of text.
    """

    def __init__(self, stream: TextIO, *, colours: bool) -> None:
        self._stream = stream
        self._colours = colours
        #: The beginning of the current line, as far as it decides how the line goes on.
        self._begun = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, and return the number of characters that were given."""
        head = ""
        if (found := _REWRITE.match(text)) and self._stream.isatty():
            head, self._begun = found[0], ""
        first, *others = text[len(head) :].replace("\r\n", "\n").split("\n")
        parts = [visible(first, self._begun, colours=self._colours)]
        parts += [visible(line, colours=self._colours) for line in others]
        self._begun = (parts[-1] if others else self._begun + parts[0]).lstrip()
        if len(self._begun) > _REMEMBERED:
            self._begun = "…" + self._begun[-_REMEMBERED:]
        self._stream.write(head + "\n".join(parts))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, which bring their own line ends."""
        for line in lines:
            self.write(line)

    def write_command(self, command: str) -> None:
        """Write a command to the runner of a workflow, on a line of its own.

        Args:
            command: What :mod:`compilegate.output.workflow_command` made.
        """
        self._stream.write(f"\n{command}\n" if self._begun else f"{command}\n")
        self._begun = ""


@contextlib.contextmanager
def clean_streams() -> Iterator[None]:
    """Clean what the process writes to stdout and stderr.

    After an exception the streams stay, so that the traceback, which the interpreter prints, is
    cleaned, too.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_clean, before)
    try:
        yield
    except Exception:
        raise
    except BaseException:  # an exit, or Ctrl-C
        sys.stdout, sys.stderr = before
        raise
    sys.stdout, sys.stderr = before


def _clean(stream: TextIO) -> Any:
    forced = bool(os.environ.get("FORCE_COLOR"))  # argparse and tracebacks obey it, too
    return CleanStream(stream, colours=forced or stream.isatty())
