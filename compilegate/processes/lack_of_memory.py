"""Distinguishes a process that died because memory ran out from one that crashed."""

from __future__ import annotations

import os
import re
import signal

#: What C++ writes before it aborts a process whose allocation failed.
_ABORTED = re.compile(r"terminate called after throwing an instance of 'std::bad_alloc'")
#: The last line of a traceback of Python, and of PyTorch's allocator.
_RAISED = re.compile(
    r"(\w+\.)*\w*MemoryError(: .*)?|.*DefaultCPUAllocator: can't allocate memory.*"
)


def why(status: int | None, output: str, *, killed: bool) -> str:
    """Return why a process died, if memory ran out; empty for every other end.

    Args:
        status: How it ended, as ``os.waitpid`` returns it; None if that is unknown.
        output: The last that it wrote.
        killed: Whether the kernel has killed a process of its cgroup for lack of memory since.
    """
    if status is None:
        return ""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return "the kernel killed the process because memory ran out" if killed else ""
    lines = output.split("\n")
    words = None
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT:
        words = next(filter(None, map(_ABORTED.match, lines)), None)
    elif os.WIFEXITED(status) and status:
        words = _RAISED.fullmatch(output.rstrip().rpartition("\n")[2])
    return f"an allocation failed and ended the process: {words[0]}" if words else ""
