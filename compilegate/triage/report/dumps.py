"""The decisive lines of what a process printed: the error, and the frames that are next to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from compilegate.processes.child_output import OBSERVING

#: The longest output that stays whole, in lines.
_WHOLE = 20
#: How many of the first and of the last lines are shown where no error ends an output.
_FIRST, _LAST = 12, 28
#: How many lines before a traceback, frames of it, and lines of its error are shown.
_BEFORE, _FRAMES, _ERROR = 6, 4, 16
#: How many of its frames are shown where others are of the user's code.
_FRAMES_NEXT_TO_USER = 2
#: How many frames are shown of a process that died or hangs.
_INNERMOST = 8
#: How many frames of the user's code are shown, and how many lines that PyTorch logs.
_FRAMES_OF_USER, _LOGGED = 6, 8
#: What PyTorch says of every script on a machine without a GPU.
_NO_GPU = "No CUDA runtime is found"
_TRACEBACK = "Traceback (most recent call last):"
#: What ``faulthandler`` prints above all stacks, and above each, whose innermost frame is first.
_DIED = re.compile(r"Fatal Python error: |Timeout \(")
_STACK = re.compile(r"(?:Current thread|Thread) 0x\w+.*\(most recent call first\)")
_FRAME = re.compile(r'\s+File "')
#: The class of an exception, rather than a notice of what a record left out.
_ERROR_LINE = re.compile(r"[A-Za-z_]")
#: A frame of Python, of an installed package, or of code that Inductor generated.
_NOT_OF_USER = re.compile(
    r'\s+File "(?:torch/|<|[^"]*(?:/(?:site|dist)-packages/|/lib/python\d|torchinductor'
    r'|/c[a-z0-9]{20,}\.py"))'
)
#: What begins a line of PyTorch's logs: level, date, process, source, compilation and log.
_LOG = re.compile(r"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+\] (?:\[[\d/_]+\] )?(?:\[__\w+\] )?")


def decisive(output: str, rest: str) -> Iterator[str]:
    """Yield the lines that say how a process ended, and how many are left out between them.

    Args:
        output: What it printed.
        rest: Where the other lines are.
    """
    whole = [line for line in output.splitlines() if _NO_GPU not in line]
    lines = [_LOG.sub("", line) for line in whole]
    if len(lines) <= _WHOLE:
        yield from lines
        return
    logged = [number for number, line in enumerate(whole) if _LOG.match(line)]
    kept = {*_of_stacks(lines)} or {*_of_traceback(lines)} or {*_ends(lines, logged)}
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
    observing = (n for n in stacks if OBSERVING in lines[n])
    current = (n for n in stacks if lines[n].startswith("Current"))
    dying = next(observing, next(current, stacks[-1]))
    yield dying
    frames = [*_while_frames(lines, range(dying + 1, len(lines)))]
    yield from frames[:_INNERMOST]
    yield from (n for n in frames if _is_of_user(lines[n]))


def _while_frames(lines: Sequence[str], numbers: Iterable[int]) -> Iterator[int]:
    for number in numbers:
        if not _FRAME.match(lines[number]):
            return
        yield number


def _is_of_user(line: str) -> bool:
    return bool(_FRAME.match(line)) and not _NOT_OF_USER.match(line)


def _of_traceback(lines: Sequence[str]) -> Iterator[int]:
    """Yield the lines of the last exception: what came before, its frames, its text.

    The frames are the innermost ones, and those of the user's code. In Dynamo, which interprets
    that code, the text has them: *from user code*.
    """
    starts = [number for number, line in enumerate(lines) if line == _TRACEBACK]
    if not starts:
        return
    start = starts[-1]
    after = range(start + 1, len(lines))
    error = next((number for number in after if _ERROR_LINE.match(lines[number])), len(lines))
    frames = [number for number in range(start, error) if _FRAME.match(lines[number])]
    of_user = [number for number in after if _is_of_user(lines[number])]
    innermost = _FRAMES_NEXT_TO_USER if of_user else _FRAMES
    first = frames[-innermost] if len(frames) >= innermost else start + 1
    yield from range(min(start, _BEFORE))
    yield start
    for number in of_user[-_FRAMES_OF_USER:]:
        yield from _with_code(lines, number)
    yield from range(first, min(error + _ERROR, len(lines)))


def _with_code(lines: Sequence[str], frame: int) -> Iterator[int]:
    """Yield a frame, and the lines below it that show its code."""
    yield frame
    for number in range(frame + 1, len(lines)):
        if _FRAME.match(lines[number]) or not lines[number].startswith("    "):
            return
        yield number


def _ends(lines: Sequence[str], logged: Sequence[int]) -> Iterator[int]:
    """Yield the first and the last lines, since the verdict is the last one, and the first logs.

    Args:
        lines: All lines.
        logged: Those that PyTorch logged, on a stream of its own.
    """
    printed = sorted({*range(len(lines))} - {*logged})
    yield from printed[:_FIRST]
    yield from printed[_FIRST:][-_LAST:]
    yield from logged[:_LOGGED]
