"""The stack of a case that ended early: what it raised, or the thread that died or hangs."""

from __future__ import annotations

import re

from compilegate.records.observation import Failure

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>\S+)')


def innermost(failure: Failure) -> str:
    """Return the innermost frame of what a case raised, or of the thread that died or hangs.

    Python prints the innermost frame of a traceback last, and faulthandler prints it first.
    """
    if frames := [*_FRAME.finditer(failure.traceback)]:
        return _frame(frames[0 if "most recent call first" in failure.traceback else -1])
    dying = failure.output.partition("Current thread")[2] or failure.output
    _, found, stack = dying.partition("most recent call first")
    frames = [*_FRAME.finditer(stack)] if found else []
    return _frame(frames[0]) if frames else ""


def _frame(found: re.Match[str]) -> str:
    """Return a frame without its line, in the file's last folders; generated code has no name."""
    if "torchinductor" in found["file"] or re.search(r"/c[a-z0-9]{20,}\.py$", found["file"]):
        return f"generated code in {found['function']}"
    path = found["file"].rpartition("site-packages/")[2].split("/")
    return f"{'/'.join(path[-3:])} in {found['function']}"
