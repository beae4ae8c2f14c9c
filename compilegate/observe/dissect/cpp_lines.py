"""Which operator of a model the line of C++ belongs to that a C++ compiler refuses.

Inductor fuses operators into one kernel, and notes at none of its lines what it computes. So each
operator's function is made to say that it runs, when Inductor reads from it what to write.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._inductor import config, exc, ir, utils
from torch._inductor.loop_body import LightTracer
from torch._inductor.virtualized import V

from compilegate.observe.dissect.graph import source_of

#: Where a compiler says that an error is.
_ERROR = re.compile(r"^(?P<file>[^:\n]+\.cpp):(?P<line>\d+):\d+: (?:fatal )?error: ", re.MULTILINE)
#: What a node of a kernel keeps of the operator that it belongs to.
_OWNER = "compilegate_owner"


def follow(file: Path) -> None:
    """Note from now on in this process which operator each line of C++ belongs to.

    Args:
        file: Receives what is known of the first line that does not compile, as JSON: the line,
            its operator, and the line of the user's code that calls it.
    """
    torch.compiler.config.force_disable_caches = True  # no code is read from a cache
    config.compile_threads = 1  # other processes would keep the error
    written: dict[str, fx.Node] = {}
    _own_functions()

    def writing(write: Callable[..., None]) -> Callable[..., None]:
        def writeline(buffer: Any, line: Any) -> None:
            if (owner := _running()) is not None:
                written.setdefault(str(getattr(line, "line", line)).strip(), owner)
            write(buffer, line)

        return writeline

    def failing(start: Callable[..., None]) -> Callable[..., None]:
        def init(error: Any, command: Any, output: Any) -> None:
            start(error, command, output)
            text = output.decode() if isinstance(output, bytes) else output
            if (found := _first_known(text, written)) and not file.exists():
                file.write_text(json.dumps(found), encoding="utf-8")

        return init

    text: Any = vars(utils)["IndentedBuffer"]
    text.writeline = writing(text.writeline)
    exc.CppCompileError.__init__ = failing(exc.CppCompileError.__init__)  # type: ignore[method-assign]


def _own_functions() -> None:
    """Have the function of each operator name its operator to the nodes that it makes."""
    computing: list[fx.Node] = []

    def owned(init: Callable[..., None]) -> Callable[..., None]:
        def post_init(made: Any) -> None:
            init(made)
            owner = V.graph.current_node if isinstance(made, ir.Loops) else None
            if owner is not None:
                object.__setattr__(made, "inner_fn", _saying(made.inner_fn, owner, computing))

        return post_init

    def marking(create: Callable[..., fx.Node]) -> Callable[..., fx.Node]:
        def create_node(*args: Any, **kwargs: Any) -> fx.Node:
            node = create(*args, **kwargs)
            # A kernel that is traced again, for another order of its loops, has its first owners.
            owner = computing[-1] if computing else _running()
            node.meta[_OWNER] = owner
            return node

        return create_node

    ir.IRNode.__post_init__ = owned(ir.IRNode.__post_init__)  # type: ignore[method-assign]
    LightTracer.create_node = marking(LightTracer.create_node)  # type: ignore[method-assign]


def _saying(run: Callable[..., Any], owner: fx.Node, computing: list[fx.Node]) -> Any:
    """Return a function that names its operator while it runs: it may run those of others."""

    @functools.wraps(run)
    def inner(*args: Any, **kwargs: Any) -> Any:
        computing.append(owner)
        try:
            return run(*args, **kwargs)
        finally:
            computing.pop()

    return inner


def _running() -> fx.Node | None:
    """Return the operator whose code is written; None if it is none of a kernel."""
    node = getattr(V.interpreter, "current_node", None)
    return node.meta.get(_OWNER) if isinstance(node, fx.Node) else None


def _first_known(output: str, written: dict[str, fx.Node]) -> dict[str, str] | None:
    """Return what is known of the first line with an error whose operator is known."""
    for found in _ERROR.finditer(output):
        path, number = Path(found["file"]), int(found["line"])
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        text = lines[number - 1].strip() if number <= len(lines) else ""
        if (owner := written.get(text)) is not None:
            called = owner.meta.get("original_aten") or owner.target
            name = getattr(getattr(called, "overloadpacket", called), "__name__", "")
            return {"line": text, "operator": str(name), "source": source_of(owner)}
    return None
