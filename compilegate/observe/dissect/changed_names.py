"""The attributes and variables that each line of a file changes: ``.order`` is an attribute."""

from __future__ import annotations

import ast
import functools
import linecache
from collections import defaultdict
from collections.abc import Iterator, Mapping

#: Methods of Python's containers that change them.
_CHANGES = {
    *("add", "append", "appendleft", "clear", "difference_update", "discard", "extend"),
    *("extendleft", "insert", "intersection_update", "move_to_end", "pop", "popitem", "popleft"),
    *("remove", "reverse", "rotate", "setdefault", "sort", "subtract"),
    *("symmetric_difference_update", "update"),
}
#: Functions that change what their first argument names.
_SETS = ("setattr", "delattr")


@functools.cache
def in_file(file: str) -> Mapping[int, frozenset[str]]:
    """Return the names that each line changes or binds: ``.order`` of ``self.order.reverse()``.

    Args:
        file: The path of a file of Python.
    """
    found: dict[int, set[str]] = defaultdict(set)
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return {}
    for node in ast.walk(tree):
        for name in _changed(node):
            found[node.lineno].add(name)  # type: ignore[attr-defined]
    return {line: frozenset(names) for line, names in found.items()}


def _changed(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Attribute(value=held, attr=method)) if method in _CHANGES:
            yield from _name(held)
        case ast.Call(func=ast.Name(id=name), args=[_, ast.Constant(value=str(attribute)), *_]):
            if name in _SETS:
                yield f".{attribute}"
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Name(ctx=ast.Store() | ast.Del()):
            yield from _name(node)
        case ast.Subscript(value=held, ctx=ast.Store() | ast.Del()):
            yield from _name(held)


def _name(node: ast.expr) -> Iterator[str]:
    """Yield the name of what holds a value: that of an attribute, also of an item in it."""
    match node:
        case ast.Subscript(value=held):
            yield from _name(held)
        case ast.Attribute(attr=name):
            yield f".{name}"
        case ast.Name(id=name):
            yield name
