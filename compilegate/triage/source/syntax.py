"""What statements and expressions of Python define, use and name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

#: How code names an operator by a text: ``my::op``.
_OPERATOR = re.compile(r"(\w+)::(\w+)")


def defines(node: ast.stmt) -> Iterable[str]:
    """Return the names that a statement binds."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign():
            named = (n for n in ast.walk(node) if isinstance(n, ast.Name))
            return [n.id for n in named if isinstance(n.ctx, ast.Store)]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [bound(alias) for alias in names]
        case ast.If() | ast.Try() | ast.With():
            inner = (n for n in ast.walk(node) if isinstance(n, ast.stmt) and n is not node)
            return [name for each in inner for name in defines(each)]
    return []


def bound(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]


def is_recipe(node: ast.stmt) -> bool:
    """Whether a statement defines the recipe of a model: ``@model("name")``."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    called = [each.func for each in decorators if isinstance(each, ast.Call)]
    return any(text_of(each).rpartition(".")[2] == "model" for each in called)


def uses(node: ast.AST) -> Iterator[str]:
    """Yield the variables that code names."""
    return (found.id for found in ast.walk(node) if isinstance(found, ast.Name))


def root(node: ast.expr) -> str:
    """Return the variable that an expression begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def last_name(node: ast.expr) -> str:
    """Return the last name of a dotted expression, also of one that is called; else nothing."""
    match node:
        case ast.Call(func=inner):
            return last_name(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def called_operators(node: ast.AST) -> Iterator[str]:
    """Yield the operators that code has as ``torch.ops.my.op``: ``my::op``."""
    for each in ast.walk(node):
        match each:
            case ast.Attribute(
                value=ast.Attribute(value=ast.Attribute(attr="ops"), attr=space), attr=name
            ):
                yield f"{space}::{name}"


def named_operators(node: ast.AST) -> set[str]:
    """Return the operators that a decorator or a call names, also by a text."""
    texts = (n.value for n in ast.walk(node) if isinstance(n, ast.Constant))
    found = (_OPERATOR.match(text) for text in texts if isinstance(text, str))
    return {f"{one[1]}::{one[2]}" for one in found if one} | {*called_operators(node)}


def text_of(node: ast.AST) -> str:
    """Return code as text."""
    return ast.unparse(ast.fix_missing_locations(node))


def absolute(node: ast.ImportFrom, package: str) -> str:
    """Return the module that a statement imports from, also where it says so relatively.

    Args:
        node: The statement.
        package: The package of its file.
    """
    if not node.level:
        return node.module or ""
    folders = package.split(".")
    base = folders[: len(folders) + 1 - node.level]
    return ".".join(filter(None, (*base, node.module or "")))


def dotted(node: ast.expr, modules: Mapping[str, str]) -> str:
    """Return what an expression names, from its module on; empty if it names nothing.

    Args:
        node: The expression.
        modules: What each imported name is.
    """
    match node:
        case ast.Name(id=name):
            return "torch" if name == "torch" else modules.get(name, name)
        case ast.Attribute(value=inner, attr=name):
            found = dotted(inner, modules)
            return f"{found}.{name}" if found else ""
    return ""
