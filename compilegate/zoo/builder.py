"""Where a recipe is defined, and what it takes from around it: a loop may define many."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Builder:
    """Where a recipe is defined.

    Attributes:
        line: The first line of its function, with decorators.
        bound: The variables of enclosing functions that it reads, and its defaults, as source.
            A value that has no source, as a module has none, is empty.
    """

    line: int = 0
    bound: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, build: Callable[..., Any]) -> Builder:
        """Return that of a function."""
        return cls(build.__code__.co_firstlineno, {n: _source(v) for n, v in _around(build)})


def _around(build: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a function takes from around it, by name."""
    cells = zip(build.__code__.co_freevars, build.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            yield name, cell.cell_contents
        except ValueError:  # it is assigned later
            continue
    count, given = build.__code__.co_argcount, build.__defaults__ or ()
    yield from zip(build.__code__.co_varnames[count - len(given) : count], given, strict=True)
    yield from (build.__kwdefaults__ or {}).items()


def _source(value: Any) -> str:
    """Return the source of a value; empty if it has none."""
    try:
        text = repr(value)
        return text if ast.literal_eval(text) == value else ""
    except Exception:
        return ""
