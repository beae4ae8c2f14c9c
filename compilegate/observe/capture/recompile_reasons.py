"""Why Dynamo compiles code again: of the guards that failed, the one that tells the cause.

Each piece of code that exists has a guard that failed. Dynamo notes the guard of the newest alone.
Where that is for another size, code for this size may exist, too, and fail for an attribute.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from torch._dynamo import convert_frame

from compilegate.observe.capture.source_place import place

#: How a guard on the size of a tensor reads.
_OF_SIZE = re.compile(r"size mismatch at index|\.size\(\)\[|\bstride mismatch|rank mismatch")
#: A frame of the stack that follows a guard.
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)', re.M)


def _in_order(find: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Return PyTorch's function that finds the guards, with guards on sizes last."""

    @functools.wraps(find)
    def found(*args: Any, **options: Any) -> list[str]:
        return in_order(find(*args, **options))

    return found


def in_order(reasons: list[str]) -> list[str]:
    """Return guards that failed, those on sizes last."""
    return sorted(reasons, key=lambda reason: bool(_OF_SIZE.search(reason.partition("\n")[0])))


def source_of(reason: str) -> str:
    """Return file and line of the code that a guard is for; empty where PyTorch names none."""
    frames = [*_FRAME.finditer(reason)]
    if not frames:
        return ""
    return place(frames[-1]["file"], int(frames[-1]["line"]), frames[-1]["function"]).source


_NAME = "get_and_maybe_log_recompilation_reasons"
if hasattr(convert_frame, _NAME):
    setattr(convert_frame, _NAME, _in_order(getattr(convert_frame, _NAME)))
