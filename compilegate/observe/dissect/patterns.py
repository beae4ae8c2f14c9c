"""The patterns that a pass of Inductor replaces in a script, and the code that they replace.

The bisector names a pass. Those that replace patterns hold dozens of these.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import fx

from compilegate.observe.dissect.graph import frames_of

_PACKAGES = Path(torch.__file__).parents[1]
#: How patterns that are traced from a function are called in what checks their matches.
_TRACED = "search_fn"


def follow(named: str, file: Path) -> None:
    """Write down what a pass replaces from now on in this process, which may die at any time.

    Args:
        named: The name of the pass.
        file: Receives the patterns as JSON: name, place and lines of each.
    """
    from torch._inductor import pattern_matcher
    from torch.fx.passes.graph_transform_observer import GraphTransformObserver

    torch.compiler.config.force_disable_caches = True  # no pass runs for code of a cache
    found: dict[str, dict[str, Any]] = {}
    running: list[str] = []

    def around(apply: Callable[..., Any]) -> Callable[..., Any]:
        def run(observer: Any, *args: Any) -> Any:
            running.append(observer.passname)
            try:
                return apply(observer, *args)
            finally:
                running.pop()

        return run

    def noting(apply: Callable[..., Any]) -> Callable[..., Any]:
        def replace(entry: Any, match: Any, *args: Any) -> Any:
            if named in running:
                name, at = _named(entry)
                lines = found.setdefault(name, {"name": name, "at": at, "lines": []})["lines"]
                lines += [line for line in _lines(match.nodes) if line not in lines]
                file.write_text(json.dumps([*found.values()]), encoding="utf-8")
            return apply(entry, match, *args)

        return replace

    for name in ("apply_graph_pass", "apply_gm_pass"):
        setattr(GraphTransformObserver, name, around(getattr(GraphTransformObserver, name)))
    for kind in pattern_matcher.PatternEntry.__subclasses__():
        kind.apply = noting(kind.apply)  # type: ignore[method-assign]


def _named(entry: Any) -> tuple[str, str]:
    """Return the name of a pattern, and the file and line of the function that defines it."""
    function = getattr(entry, "handler", None)
    if function is None:
        traced = inspect.getclosurevars(entry.extra_check).nonlocals
        function = traced.get(_TRACED, entry.extra_check)
    code = _defined(function).__code__
    file = Path(code.co_filename)
    at = file.relative_to(_PACKAGES) if file.is_relative_to(_PACKAGES) else file.name
    return function.__name__, f"{at}:{code.co_firstlineno}"


def _defined(function: Any) -> Any:
    """Return the function that the source of a pattern has: Inductor gives some of its arguments.

    Its ``partialize_and_update_signature`` wraps a ``functools.partial``, under the same name.
    """
    held = inspect.getclosurevars(function).nonlocals.values()
    functions = (each.func for each in held if isinstance(each, functools.partial))
    same = (each for each in functions if each.__name__ == function.__name__)
    return next(same, inspect.unwrap(function))


def _lines(nodes: list[fx.Node]) -> list[str]:
    """Return the innermost line of the user's code that made each node, once."""
    frames = [found[-1] for node in nodes if (found := frames_of(node))]
    lines = (f"{Path(frame.file).name}:{frame.line}: {frame.text}" for frame in frames)
    return [*dict.fromkeys(lines)]
