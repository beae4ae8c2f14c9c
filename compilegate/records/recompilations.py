"""How often Dynamo compiled code again: the one count that rules and reports share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from compilegate.records.observation import Capture, Compilation, Place

#: A code object: its place, and Dynamo's number of the frame.
CodeObject = tuple[Place, str]

#: A guard on one size of a tensor.
_SIZE = re.compile(r"tensor .* size mismatch at index \d+")


def recompilations(compilations: Iterable[Compilation]) -> Counter[CodeObject]:
    """Return how often each code object was compiled again, if it was.

    A line with two breaks leaves two code objects of one place, each of which is compiled for the
    first time in the same call. Code that is new in a later call counts as compiled again.
    """
    first: dict[Place, tuple[int, str]] = {}
    compiled: Counter[CodeObject] = Counter()
    for item in compilations:
        if not item.graph:
            continue
        frame = item.compile_id.partition("/")[0]
        call, other = first.setdefault(item.code, (item.call, frame))
        is_own = item.call == call or (item.code, frame) in compiled
        compiled[item.code, frame if is_own else other] += 1
    return Counter({code: count - 1 for code, count in compiled.items() if count > 1})


def total_of(capture: Capture) -> int:
    """Return the recompilations of all code objects together."""
    return recompilations(capture.compilations).total()


def beyond_sizes(compilations: Iterable[Compilation]) -> list[Compilation]:
    """Leave out code that was compiled again for a size that differs, once for each.

    *static* and *auto* need that. It stays where the code was compiled again for nothing else.
    """
    known = [*compilations]
    sizes = Counter((item.code, _size_in(item)) for item in known)
    other = {item.code for item in known if item.reason and not _size_in(item)}
    return [
        item
        for item in known
        if item.code not in other or not (size := _size_in(item)) or sizes[item.code, size] > 1
    ]


def _size_in(item: Compilation) -> str:
    found = _SIZE.search(item.reason)
    return found[0] if found else ""
