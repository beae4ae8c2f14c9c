"""The stack of a case that ended early: what it raised, or the thread that died or hangs."""

from __future__ import annotations

import re

from compilegate.records.observation import Failure

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>\S+)')
#: What faulthandler prints above the frames of a thread.
_FIRST = "most recent call first"
#: A file of the compiler, from the package on. Others of torch only call what was compiled.
_OF_COMPILER = re.compile(
    r"(?:^|/)(torch/(?:_inductor|_functorch|_decomp|_refs|_prims|_higher_order_ops|_subclasses|fx"
    r"|_dynamo(?!/eval_frame))\b.*)"
)
#: A file that the compiler calls: of Python, or of a library of mathematics.
_OF_LIBRARY = re.compile(
    r"/lib/python[\d.]+/(?!site-packages|dist-packages)|(?:^|/)(?:sympy|mpmath|numpy|networkx)/"
    r"|^<frozen "
)
#: What takes a node of a graph, and calls what handles it.
_TAKES_NODE = ("call_function", "call_method", "run_node")


def innermost(failure: Failure) -> str:
    """Return the innermost frame of what a case raised, or of the thread that died or hangs."""
    frames = _frames(failure)
    return _frame(frames[0]) if frames else ""


def in_compiler(failure: Failure) -> str:
    """Return the function of PyTorch's compiler in which a case died or hangs, and its file.

    It is empty if other code runs there: a pass of the team's own, or code that was generated.
    """
    for frame in _frames(failure):
        if found := _OF_COMPILER.search(frame["file"]):
            return f"{frame['function']} ({found[1]})"
        if not _OF_LIBRARY.search(frame["file"]):
            return ""
    return ""


def functions(failure: Failure) -> list[str]:
    """Return the functions of the compiler that handle one node of a graph, the innermost first.

    They are empty where the stack has none that takes a node from a graph.
    """
    names = [frame["function"] for frame in _frames(failure)]
    at = next((n for n, name in enumerate(names) if name in _TAKES_NODE), 0)
    return names[:at]


def _frames(failure: Failure) -> list[re.Match[str]]:
    """Return the frames of a failure, the innermost first.

    Python prints the innermost frame of a traceback last, and faulthandler prints it first.
    """
    if frames := [*_FRAME.finditer(failure.traceback)]:
        return frames if _FIRST in failure.traceback else frames[::-1]
    dying = failure.output.partition("Current thread")[2] or failure.output
    _, found, stack = dying.partition(_FIRST)
    own = re.split(r"^(?:Current thread|Thread) 0x", stack, maxsplit=1, flags=re.M)[0]
    return [*_FRAME.finditer(own)] if found else []


def _frame(found: re.Match[str]) -> str:
    """Return a frame without its line, in the file's last folders; generated code has no name."""
    if "torchinductor" in found["file"] or re.search(r"/c[a-z0-9]{20,}\.py$", found["file"]):
        return f"generated code in {found['function']}"
    path = found["file"].rpartition("site-packages/")[2].split("/")
    return f"{'/'.join(path[-3:])} in {found['function']}"
