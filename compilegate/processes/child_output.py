"""What a child wrote: its head and tail, and the stacks of its threads where it hung or died.

Python's faulthandler writes a block for each thread, the innermost frame first. The thread that
observes the case is the main thread of the child: the fork server's own frames lie at its bottom.
faulthandler calls the thread that got the signal the current one. Where the main thread blocks
signals, that is a thread of the observer without a Python frame (``observe.stacks``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import IO, NamedTuple

from compilegate.records.bounded_text import LONGEST_TEXT, bounded, excerpt
from compilegate.records.secret_values import masker

#: Frames of the observer itself in a dumped stack. They are of no use to the reader.
_OWN_FRAME = re.compile(
    r'\s*File ".*(compilegate/(observe|zoo)/|<frozen runpy>)|Extension modules:'
)
#: The frame from which a child begins to observe.
_OUTERMOST = re.compile(r'\s*File ".*compilegate/observe/server\.py", line \d+ in _fork')
#: All that faulthandler shows of a thread that runs no Python.
_NO_FRAME = "<no Python frame>"
#: How faulthandler's report of a crash begins, and how it begins the stack of the thread that
#: crashed. This many lines of it are kept.
_FATAL, _CURRENT, _STACK_LINES = "Fatal Python error: ", "Current thread", 12
#: How the stack of a thread begins, where the process goes on; Python 3.14 adds the thread's name.
_THREAD = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+.*)")
#: What marks the thread that observes the case.
OBSERVING = "the thread that observes the case"
#: How many lines are kept of what was written before the stacks, and of the observing thread.
_LINES_BEFORE, _LINES_OBSERVING = 10, 20
#: How many lines are kept in all, of which these are the first, and how many bytes are searched for
#: stacks. A dying process lists the stacks of all its threads, and the modules that it imported in
#: a line of thousands of letters.
_OUTPUT_LINES, _FIRST_LINES, _OUTPUT_BYTES = 40, 10, 1 << 17


class _Block(NamedTuple):
    """The stack of a thread: the line that begins it, and its frames."""

    head: str
    frames: Sequence[str]

    @property
    def runs_python(self) -> bool:
        return any(frame.strip() != _NO_FRAME for frame in self.frames)


def output_of(file: IO[bytes], since: int = 0) -> str:
    """Return the first and last lines that a process wrote, or the stacks of its threads.

    Of a process that a signal killed, this is the stack where it died. Of one that was asked for
    its stacks, the thread that observes the case comes first.

    Args:
        file: The file that the process writes to.
        since: The first byte to read.
    """
    size = os.fstat(file.fileno()).st_size - since
    last = os.pread(file.fileno(), _OUTPUT_BYTES, since + max(size - _OUTPUT_BYTES, 0))
    lines = last.decode(errors="replace").splitlines()
    stacks = _of_crash(lines) or _observing_first(lines)
    if stacks:
        return bounded(masker()("\n".join(stacks).strip()))
    first = last if size <= _OUTPUT_BYTES else os.pread(file.fileno(), LONGEST_TEXT, since)
    kept = _without_own_frames(last)
    text = excerpt(
        _without_own_frames(first),
        kept,
        size - len(last) + len(kept),
        LONGEST_TEXT,
        lines=(_FIRST_LINES, _OUTPUT_LINES - _FIRST_LINES),
    )
    return bounded(masker()(text.strip()))


def last_words_of(file: IO[bytes], since: int = 0) -> str:
    """Return the end of what a process wrote, stacks included."""
    size = os.fstat(file.fileno()).st_size
    start = max(since, size - _OUTPUT_BYTES)
    return os.pread(file.fileno(), size - start, start).decode(errors="replace")


def _without_own_frames(data: bytes) -> bytes:
    """Return an output without the observer's frames."""
    lines = data.splitlines(keepends=True)
    return b"".join(x for x in lines if not _OWN_FRAME.match(x[:1_000].decode(errors="replace")))


def _of_crash(lines: Sequence[str]) -> list[str]:
    """Return faulthandler's report of a crash: the thread that crashed; empty without a crash."""
    lines = [line for line in lines if not _OWN_FRAME.match(line)]
    fatal = [n for n, line in enumerate(lines) if line.startswith(_FATAL)]
    if not fatal:
        return []
    current = [n for n, line in enumerate(lines) if line.startswith(_CURRENT)]
    frames = lines[current[-1] :] if current else lines[fatal[-1] + 1 :]
    return [lines[fatal[-1]], *filter(None, frames)][:_STACK_LINES]


def _observing_first(lines: Sequence[str]) -> list[str]:
    """Return the stacks of a process, the observing thread first and marked; empty without any."""
    heads = [n for n, line in enumerate(lines) if _THREAD.match(line)]
    if not any(lines[n].startswith(_CURRENT) for n in heads):
        return []
    ends = [*heads[1:], len(lines)]
    blocks = [
        _Block(lines[head], [*filter(None, lines[head + 1 : end])])
        for head, end in zip(heads, ends, strict=True)
    ]
    observing = _observing(blocks)
    others = [block for block in blocks if block is not observing and block.runs_python]
    marked = _THREAD.sub(rf"Thread \1, {OBSERVING}:", observing.head.rstrip(":"))
    kept = [
        *lines[: heads[0]][-_LINES_BEFORE:],
        marked,
        *_frames(observing)[:_LINES_OBSERVING],
        *(line for block in others for line in (block.head, *_frames(block))),
    ]
    return kept[:_OUTPUT_LINES]


def _observing(blocks: Sequence[_Block]) -> _Block:
    """Return the stack of the thread that observes the case.

    faulthandler leaves out the outermost frames of a deep stack. It lists the main thread last.
    """
    by_frame = (b for b in blocks if any(map(_OUTERMOST.match, b.frames)))
    current = (b for b in blocks if b.head.startswith(_CURRENT) and b.runs_python)
    last = (b for b in reversed(blocks) if b.runs_python)
    return next(by_frame, None) or next(current, None) or next(last, blocks[-1])


def _frames(block: _Block) -> list[str]:
    return [frame for frame in block.frames if not _OWN_FRAME.match(frame)]
