"""What a child wrote: its last lines, and the stacks of its threads where it hung or died.

Python's faulthandler writes a block for each thread, the innermost frame first. It calls the thread
that got the signal the current one. The kernel gives a signal to the main thread of a process
wherever that can take it, and the main thread of a child observes the case.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import IO

#: Frames of the observer itself in a dumped stack. They are of no use to the reader.
_OWN_FRAME = re.compile(
    r'\s*File ".*(compilegate/(observe|zoo)/|<frozen runpy>)|Extension modules:'
)
#: How faulthandler's report of a crash begins, and how it begins the stack of the thread that
#: crashed. This many lines of it are kept.
_FATAL, _CURRENT, _STACK_LINES = "Fatal Python error: ", "Current thread", 12
#: How the stack of a thread begins, where the process goes on; Python 3.14 adds the thread's name.
_THREAD = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+.*)")
#: What marks the thread that observes the case.
OBSERVING = "the thread that observes the case"
#: How many lines are kept of what was written before the stacks, and of the observing thread.
_LINES_BEFORE, _LINES_OBSERVING = 10, 20
#: How many lines of a child's output are kept, out of how many bytes. A dying process lists the
#: stacks of all its threads, and the modules that it imported in a line of thousands of letters.
_OUTPUT_LINES, _OUTPUT_BYTES = 40, 1 << 17


def output_of(file: IO[bytes], since: int = 0) -> str:
    """Return the last lines that a process wrote, or the stacks of its threads.

    Of a process that a signal killed, this is the stack where it died. Of one that was asked for
    its stacks, the thread that observes the case comes first.

    Args:
        file: The file that the process writes to.
        since: The first byte to read.
    """
    size = os.fstat(file.fileno()).st_size
    start = max(since, size - _OUTPUT_BYTES)
    text = os.pread(file.fileno(), size - start, start).decode(errors="replace")
    lines = [line for line in text.splitlines() if not _OWN_FRAME.match(line)]
    fatal = [n for n, line in enumerate(lines) if line.startswith(_FATAL)]
    if fatal:
        current = [n for n, line in enumerate(lines) if line.startswith(_CURRENT)]
        frames = lines[current[-1] :] if current else lines[fatal[-1] + 1 :]
        lines = [lines[fatal[-1]], *filter(None, frames)][:_STACK_LINES]
    else:
        lines = _observing_first(lines)
    return "\n".join(lines[-_OUTPUT_LINES:]).strip()


def _observing_first(lines: Sequence[str]) -> list[str]:
    """Move the stack of the observing thread before those of other threads, and mark it."""
    heads = [n for n, line in enumerate(lines) if _THREAD.match(line)]
    current = next((n for n in heads if lines[n].startswith(_CURRENT)), None)
    if current is None:
        return list(lines)
    ends = dict(zip(heads, [*heads[1:], len(lines)], strict=True))
    others = [line for head in heads if head != current for line in lines[head : ends[head]]]
    frames = [*filter(None, lines[current + 1 : ends[current]])][:_LINES_OBSERVING]
    marked = _THREAD.sub(rf"Thread \1, {OBSERVING}:", lines[current].rstrip(":"))
    before = lines[: heads[0]][-_LINES_BEFORE:]
    return [*before, marked, *frames, *filter(None, others)][:_OUTPUT_LINES]
