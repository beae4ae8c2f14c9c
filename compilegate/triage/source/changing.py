"""Variables of a team's modules that other code fills, such as registries: a copy would be empty.

Nothing is imported to find out: the files of the package are read.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from compilegate.triage.source.syntax import last_name, uses

#: Methods of a list, a dictionary or a set that change it.
_CHANGES = {"add", "append", "clear", "extend", "insert", "pop", "remove", "setdefault", "update"}
#: What tells a module where it is. A script is elsewhere.
_PLACES = {"__file__", "__package__", "__path__", "__spec__"}
#: Of a package with more files than this, some are not read.
_MOST_FILES = 2000
#: What holds code that runs later.
_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def knows_its_place(node: ast.stmt) -> bool:
    """Whether a statement asks for the place of its file: data may be next to it."""
    return not _PLACES.isdisjoint(uses(node))


def is_filled_elsewhere(node: ast.stmt, name: str, file: Path, root: Path | None) -> bool:
    """Whether code other than the top level of its own file changes a variable.

    An empty one that its file does not fill counts, too: nobody has an empty constant.

    Args:
        node: The statement that defines it.
        name: Its name.
        file: Its file.
        root: The folder of the package; None for a module of its own.
    """
    if not isinstance(node, ast.Assign) or isinstance(node.value, (ast.Constant, ast.Tuple)):
        return False
    body = _tree(file).body
    at_top = [each for each in body if not isinstance(each, _LATER)]
    later = [each for each in body if isinstance(each, _LATER)]
    if _is_empty(node.value) and not _is_changed(at_top, name):
        return True
    if _is_changed(later, name):
        return True
    others = (each for each in _files(root) if each != file) if root is not None else ()
    return any(_is_filled_in(each, name, file.stem) for each in others)


def only_registers(function: ast.FunctionDef) -> bool:
    """Whether a decorator returns what it is given, and only notes it in a variable.

    Args:
        function: The decorator, or the function that makes it.
    """
    inner = [node for node in function.body if isinstance(node, ast.FunctionDef)]
    made = next((node for node in inner if _returns(function) == {node.name}), function)
    given = made.args.args[0].arg if made.args.args else ""
    notes = {name for name in _changed_in(ast.walk(made)) if name}
    return _returns(made) == {given} and bool(notes) and given not in notes


def is_method_of_registry(decorator: ast.expr) -> bool:
    """Whether a decorator is a method that registers: ``@MODELS.register_module()``."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Attribute) and called.attr.startswith("register")


def _returns(function: ast.FunctionDef) -> set[str]:
    inner = {id(n) for each in function.body for n in ast.walk(each) if _is_within(each, n)}
    returned = (n for n in ast.walk(function) if isinstance(n, ast.Return) and id(n) not in inner)
    return {ast.unparse(node.value) if node.value is not None else "" for node in returned}


def _is_within(statement: ast.stmt, node: ast.AST) -> bool:
    return isinstance(statement, ast.FunctionDef) and node is not statement


def _is_empty(value: ast.expr) -> bool:
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Call(func=ast.Name(id="dict" | "list" | "set"), args=[], keywords=[]):
            return True
    return False


def _is_changed(nodes: Iterable[ast.AST], name: str) -> bool:
    return name in _changed_in(each for node in nodes for each in ast.walk(node))


def _changed_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the last names of variables that code changes, not those that it binds."""
    for node in nodes:
        match node:
            case ast.Subscript(value=held, ctx=ast.Store() | ast.Del()):
                yield last_name(held)
            case ast.Call(func=ast.Attribute(value=held, attr=method)) if method in _CHANGES:
                yield last_name(held)
            case ast.AugAssign(target=held):
                yield last_name(held)
            case ast.Global(names=names):
                yield from names
            case ast.FunctionDef(decorator_list=found) | ast.ClassDef(decorator_list=found):
                calls = (one.func if isinstance(one, ast.Call) else one for one in found)
                for one in calls:
                    if isinstance(one, ast.Attribute) and is_method_of_registry(one):
                        yield last_name(one.value)


def _is_filled_in(file: Path, name: str, module: str) -> bool:
    """Whether another file of the package imports a variable, or its module, and changes it."""
    if name not in _text(file):
        return False
    tree = _tree(file)
    imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    parts = {part for node in imports for alias in node.names for part in alias.name.split(".")}
    return not parts.isdisjoint((name, module, "*")) and _is_changed([tree], name)


@functools.cache
def _files(root: Path) -> tuple[Path, ...]:
    found = sorted(root.rglob("*.py"))
    return (*found[:_MOST_FILES],)


@functools.cache
def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""


@functools.cache
def _tree(file: Path) -> ast.Module:
    try:
        return ast.parse(_text(file))
    except SyntaxError:
        return ast.Module([], [])
