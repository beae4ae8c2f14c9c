"""Tracebacks as failures show them: frames of PyTorch that only lead to an error are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from compilegate.records.wording import counted

_FRAME = re.compile(r'(?P<indent>\s*)File "(?P<file>[^"]+)", line \d+, in ')
_OF_TORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]")
#: How many frames of PyTorch say where in it an error was raised.
_INNERMOST = 2


def without_torch(text: str) -> Iterator[str]:
    """Yield the lines of a traceback, in which frames of PyTorch in a row are one line.

    The innermost frames of the error stay, whose function of PyTorch may be what is wrong. The run
    file has all frames.

    Args:
        text: One or several tracebacks, as Python prints them.
    """
    entries = [*_entries(text.rstrip().splitlines())]
    end = 0
    for of_torch, run in groupby(entries, key=_is_of_torch):
        frames = [*run]
        end += len(frames)
        followed = end < len(entries) and _FRAME.match(entries[end][0]) is not None
        hidden = frames if followed else frames[:-_INNERMOST]
        if of_torch and len(hidden) > 1:
            indent = " " * (len(frames[0][0]) - len(frames[0][0].lstrip()))
            yield f"{indent}[{counted(len(hidden), 'frame')} of torch]"
            frames = frames[len(hidden) :]
        for frame in frames:
            yield from frame


def _entries(lines: list[str]) -> Iterator[list[str]]:
    """Yield each frame with its source lines, which are indented further, and each other line."""
    entry: list[str] = []
    indent = 0
    for line in lines:
        frame = _FRAME.match(line)
        if entry and frame is None and len(line) - len(line.lstrip()) > indent:
            entry.append(line)
            continue
        if entry:
            yield entry
        entry = [line] if frame else []
        indent = len(frame["indent"]) if frame else 0
        if frame is None:
            yield [line]
    if entry:
        yield entry


def _is_of_torch(entry: list[str]) -> bool:
    frame = _FRAME.match(entry[0])
    return frame is not None and _OF_TORCH.search(frame["file"]) is not None
