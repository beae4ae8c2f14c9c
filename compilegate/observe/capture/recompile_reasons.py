"""Why Dynamo compiles code again: of the guards that failed, the one that tells the cause.

Each piece of code that exists has a guard that failed. Dynamo notes the guard of the newest alone.
Where that is for another size, code for this size may exist, too, and fail for an attribute. Where
newer code exists although that attribute differed, it does not tell the cause.
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
#: A frame of the stack that follows a guard, and the text of its line, if that is there.
_FRAME = re.compile(
    r'^[ \t]*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)'
    r'(?:\n[ \t]+(?!File ")(?P<text>[^\n]+))?',
    re.M,
)
#: What PyTorch writes after a guard: the line of the innermost frame, and the end of its path.
_COMMENT = re.compile(r"\s+# (?:.*?\s+# )?\S+:\d+ in \S+")

#: Guards that have failed since the last reset, each with the number of its code: ``0/0: not x``.
_failed: set[str] = set()


def _in_order(find: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Return PyTorch's function that finds the guards, in order."""

    @functools.wraps(find)
    def found(*args: Any, **options: Any) -> list[str]:
        return in_order(find(*args, **options))

    return found


def in_order(reasons: list[str]) -> list[str]:
    """Return guards that failed: on sizes last, as are those that have failed before.

    For a guard that has failed before, Dynamo has compiled code then. An attribute that the first
    call sets keeps the first code from running ever after, whatever the size.
    """
    guards = {reason: reason.partition("\n")[0] for reason in reasons}
    ordered = sorted(
        reasons,
        key=lambda reason: bool(_OF_SIZE.search(guards[reason])) or guards[reason] in _failed,
    )
    _failed.update(guards.values())
    return ordered


def forget() -> None:
    """Forget the guards that have failed, as Dynamo forgets the code that they belong to."""
    _failed.clear()


def guard_and_source(reason: str) -> tuple[str, str]:
    """Return a guard in one line, and file and line of the code that it is for.

    That is the innermost frame outside of torch: ``nn.Module.__setattr__`` asks for the type of
    what any line assigns. PyTorch's comment on the guard then has the text of this line.

    Args:
        reason: The guard, and the stack of what it is for. Without that, the line is empty.
    """
    guard = " ".join(reason.strip().partition("\n")[0].split())
    frames = [*_FRAME.finditer(reason)]
    if not frames:
        return guard, ""
    places = [place(one["file"], int(one["line"]), one["function"]) for one in frames]
    at = max((n for n, found in enumerate(places) if found.owner != "torch"), default=-1)
    text = (frames[at]["text"] or "").strip()
    if text and places[at] != places[-1]:
        guard = _COMMENT.sub(lambda _: f" # {text} # {places[at]}", guard, count=1)
    return guard, places[at].source


_NAME = "get_and_maybe_log_recompilation_reasons"
if hasattr(convert_frame, _NAME):
    setattr(convert_frame, _NAME, _in_order(getattr(convert_frame, _NAME)))
