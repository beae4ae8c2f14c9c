"""The decisive lines of what a process printed: the error, and the frames that are next to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

#: The longest output that stays whole, in lines.
_WHOLE = 20
#: How many of the first and of the last lines are shown where no error ends an output.
_FIRST, _LAST = 12, 28
#: How many lines before a traceback, frames of it, and lines of its error are shown.
_BEFORE, _FRAMES, _ERROR = 6, 4, 16
#: How many frames are shown of a process that died or hangs.
_INNERMOST = 8
#: What PyTorch says of every script on a machine without a GPU.
_NO_GPU = "No CUDA runtime is found"
_TRACEBACK = "Traceback (most recent call last):"
#: What ``faulthandler`` prints above all stacks, and above each, whose innermost frame is first.
_DIED = re.compile(r"Fatal Python error: |Timeout \(")
_STACK = re.compile(r"(?:Current thread|Thread) 0x\w+.*\(most recent call first\):")
_FRAME = re.compile(r'\s+File "')


def decisive(output: str, rest: str) -> Iterator[str]:
    """Yield the lines that say how a process ended, and how many are left out between them.

    Args:
        output: What it printed.
        rest: Where the other lines are.
    """
    lines = [line for line in output.splitlines() if _NO_GPU not in line]
    if len(lines) <= _WHOLE:
        yield from lines
        return
    kept = [*_of_stacks(lines)] or [*_of_traceback(lines)] or [*_ends(lines)]
    before = -1
    for number in [*sorted(kept), len(lines)]:
        if (left_out := number - before - 1) > 0:
            yield f"… {left_out} line{'s' * (left_out != 1)} left out: see {rest} …"
        yield from lines[number : number + 1]
        before = number


def _of_stacks(lines: Sequence[str]) -> Iterator[int]:
    """Yield the lines of a process that died or hangs: how, and the innermost frames."""
    stacks = [number for number, line in enumerate(lines) if _STACK.match(line)]
    if not stacks:
        return
    yield from (number for number in range(stacks[0]) if _DIED.match(lines[number]))
    dying = next((n for n in stacks if lines[n].startswith("Current")), stacks[-1])
    yield dying
    yield from _while_frames(lines, range(dying + 1, min(dying + 1 + _INNERMOST, len(lines))))


def _while_frames(lines: Sequence[str], numbers: Iterable[int]) -> Iterator[int]:
    for number in numbers:
        if not _FRAME.match(lines[number]):
            return
        yield number


def _of_traceback(lines: Sequence[str]) -> Iterator[int]:
    """Yield the lines of the last exception: what came before, its innermost frames, its text."""
    starts = [number for number, line in enumerate(lines) if line == _TRACEBACK]
    if not starts:
        return
    start = starts[-1]
    after = range(start + 1, len(lines))
    error = next((number for number in after if lines[number][:1].strip()), len(lines))
    frames = [number for number in range(start, error) if _FRAME.match(lines[number])]
    first = frames[-_FRAMES] if len(frames) >= _FRAMES else start + 1
    yield from range(min(start, _BEFORE))
    yield start
    yield from range(first, min(error + _ERROR, len(lines)))


def _ends(lines: Sequence[str]) -> Iterator[int]:
    """Yield the first and the last lines: the verdict is the last one."""
    yield from range(min(_FIRST, len(lines)))
    yield from range(max(_FIRST, len(lines) - _LAST), len(lines))
