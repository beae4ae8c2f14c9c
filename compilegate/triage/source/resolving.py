"""What names in a file of the team stand for, also through imports of its other modules."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from compilegate.triage.source.changing import is_method_of_registry, only_registers
from compilegate.triage.source.members import modules_of
from compilegate.triage.source.syntax import bound, dotted

if TYPE_CHECKING:
    from compilegate.triage.source.definitions import Source

#: How many modules may hand on a name. Packages may import it from each other.
_MOST = 8


def resolved(
    source: Source, node: ast.expr, inside: dict[str, str] | None = None
) -> tuple[Source, ast.stmt] | None:
    """Return the statement that defines what an expression names, and its file.

    Args:
        source: The file of the expression.
        node: The expression.
        inside: The imports in the function that has the expression.
    """
    if isinstance(node, ast.Name) and node.id not in (inside or {}):
        return _named(source, node.id)
    path = dotted(node, modules_of(source.body, source.package) | (inside or {}))
    module, _, name = path.rpartition(".")
    other = source.gathered.module(module) if module else None
    return _named(other, name) if other is not None else None


def _named(source: Source, name: str) -> tuple[Source, ast.stmt] | None:
    for _ in range(_MOST):
        found = source.defined.get(name)
        if not isinstance(found, ast.ImportFrom):
            return (source, found) if found is not None else None
        name = next(alias.name for alias in found.names if bound(alias) == name)
        other = source.gathered.module(found.module or "")
        if other is None:
            return None
        source = other
    return None


def fills_registry(source: Source, decorator: ast.expr) -> bool:
    """Whether a decorator of the team only fills a registry: what it decorates stays as is.

    Args:
        source: The file of the decorator.
        decorator: The decorator.
    """
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    found = resolved(source, called)
    if found is not None and isinstance(found[1], ast.FunctionDef):
        return bool(found[0].module) and only_registers(found[1])
    found = resolved(source, called.value) if isinstance(called, ast.Attribute) else None
    is_variable = found is not None and isinstance(found[1], ast.Assign)
    return is_variable and bool(found and found[0].module) and is_method_of_registry(decorator)
