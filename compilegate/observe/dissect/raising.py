"""The line of the user's code whose operator raises, also where its backward does.

Dynamo names a line for what it compiles itself. A backward is compiled, and runs, when no line of
the user's code does.
"""

from __future__ import annotations

import linecache
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

from torch import fx

from compilegate.observe.dissect.graph import Frame, frames_in, frames_of
from compilegate.zoo.example import Call

#: How autograd names the forward of what raises while AOTAutograd traces a backward.
_OF_FORWARD = re.compile(r"Error detected in \w+\. Traceback of forward call that caused the error")
#: The file of the code of a graph.
_GENERATED = "<eval_with_key>"


def line_of(run: Callable[[Call], Any], calls: Iterable[Call]) -> str:
    """Return the line that calls the operator which raises; empty if it is not known.

    Args:
        run: Makes a call, and its backward.
        calls: The calls, of which one raises.
    """
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            for call in calls:
                run(call)
        except Exception as error:
            traced = (str(one.message) for one in said)
            forward = [frames_in(text) for text in traced if _OF_FORWARD.search(text)]
            found = next(filter(None, (*forward, *_computing(error))), [])
            return _shown(found)
    return ""


def _computing(error: BaseException) -> Iterator[Sequence[Frame]]:
    """Yield the lines of the nodes that were compiled or run, from the innermost on."""
    frames: list[tuple[FrameType, int]] = []
    traceback = error.__traceback__
    while traceback is not None:
        frames.append((traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    for frame, number in reversed(frames):
        if (node := _node_of(frame, number)) is not None:
            yield frames_of(node)


def _node_of(frame: FrameType, number: int) -> fx.Node | None:
    """Return the node that a frame is at: of an interpreter, or in the code of a graph."""
    own, node = frame.f_locals.get("self"), frame.f_locals.get("n")
    if isinstance(own, fx.Interpreter) and isinstance(node, fx.Node):
        return node
    file = frame.f_code.co_filename
    if not (isinstance(own, fx.GraphModule) and file.startswith(_GENERATED)):
        return None
    name = re.match(r"\s*(\w+)", linecache.getline(file, number))
    return next((one for one in own.graph.nodes if name and one.name == name[1]), None)


def _shown(frames: Sequence[Frame]) -> str:
    return f"{frames[-1].source}: {frames[-1].text}" if frames else ""
