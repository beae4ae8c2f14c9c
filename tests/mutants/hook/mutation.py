"""Finds what can be changed in the source of a module, and loads the module with one change."""

from __future__ import annotations

import ast
import copy
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

#: The lines of functions that were executed, by module.
LINES: dict[str, set[int]] = {}

_COMPARED = {
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
}
_COMPARED |= {new: old for old, new in _COMPARED.items()}
_COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult}
_COMPUTED |= {
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
#: Words and signs of C++ and Triton. A sign stands between blanks, or is all of a text.
_WRITTEN = {"+": "-", "-": "+", "*": "+", "/": "*", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_WRITTEN |= {"==": "!=", "!=": "==", "&&": "||", "||": "&&", "<<": ">>", ">>": "<<", "&": "|"}
_WRITTEN |= {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum"}
_WRITTEN |= {"true": "false", "false": "true", "True": "False", "False": "True"}
_IN_TEXT = re.compile(
    r"(?<![^ ])(?:[-+*/<>&]|<=|>=|==|!=|&&|\|\||<<|>>)(?![^ ])"
    r"|\b(?:max|min|maximum|minimum|true|false|True|False)\b"
    r"|(?<![\w.%{#])\d+(?![\w.}])"
)
_LOGGED = {"debug", "info", "warning", "warn", "error", "exception", "log", "warning_once"}
_COUNTED = ("metrics.", "counters[")
#: Parts of the syntax tree that compute nothing while code is compiled.
_IDLE = {"annotation", "returns", "decorator_list", "format_spec", "type_params", "type_comment"}

Put = Callable[[Any], None]


@dataclass
class Site:
    """A place where a module can be changed.

    Attributes:
        kind: The kind of change.
        line: The first line of the statement.
        before: The source that is changed.
        after: What it becomes.
        apply: Changes the syntax tree.
    """

    kind: str
    line: int
    before: str
    after: str
    apply: Callable[[], None]


def sites(tree: ast.Module, *, has_templates: bool = False) -> list[Site]:
    """Return the places inside functions, in the order of the source.

    Args:
        tree: The syntax tree of a module.
        has_templates: Whether the strings of the module are parts of generated code.
    """
    return [*_Finder(has_templates).walk(tree, _Around())]


@dataclass(frozen=True)
class _Around:
    """What encloses a node: its function and its statement."""

    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    statement: ast.stmt | None = None


class _Finder:
    """Walks a syntax tree."""

    def __init__(self, has_templates: bool) -> None:
        self.has_templates = has_templates

    def walk(self, node: ast.AST, around: _Around) -> Iterator[Site]:
        """Yield the places below a node."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            around = _Around(node)
        for name, child, put in _children(node):
            if name in _IDLE or isinstance(child, ast.Raise | ast.Assert) or _is_idle(child):
                continue
            inside = _Around(
                around.function, child if isinstance(child, ast.stmt) else around.statement
            )
            if inside.function is not None and inside.statement is not None:
                for kind, new in self._changes(child, name, inside.function):
                    before, after = _shown(child), _shown(new)
                    if before != after:
                        apply = partial(put, ast.copy_location(new, child))
                        yield Site(kind, inside.statement.lineno, before, after, apply)
            yield from self.walk(child, inside)

    def _changes(
        self, node: ast.AST, field: str, function: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> Iterator[tuple[str, ast.AST]]:
        """Yield what a node can become, each with the kind of the change."""
        if field in ("test", "ifs"):
            yield "condition", ast.UnaryOp(ast.Not(), node)
        match node:
            case ast.Compare(left, [operator], right) if type(operator) in _COMPARED:
                yield "comparison", ast.Compare(left, [_COMPARED[type(operator)]()], right)
            case ast.BinOp(left, operator, right) if type(operator) in _COMPUTED:
                yield "arithmetic", ast.BinOp(left, _COMPUTED[type(operator)](), right)
            case ast.AugAssign(target, operator, value):
                yield "statement", ast.Pass()
                if type(operator) in _COMPUTED:
                    new = ast.AugAssign(target, _COMPUTED[type(operator)](), value)
                    yield "arithmetic", new
            case ast.BoolOp(operator, values):
                other = ast.And() if isinstance(operator, ast.Or) else ast.Or()
                yield "logic", ast.BoolOp(other, values)
            case ast.Call(called, [first, second, *rest], keywords):
                if not any(isinstance(one, ast.Starred) for one in (first, second)):
                    yield "arguments", ast.Call(called, [second, first, *rest], keywords)
            case ast.Return(ast.AST()) if (name := _first_argument(function)) is not None:
                yield "return", ast.Return(ast.Name(name, ast.Load()))
            case ast.Expr(ast.Call()) | ast.Continue() | ast.Break():
                yield "statement", ast.Pass()
            case ast.Assign([ast.Attribute() | ast.Subscript()]):
                yield "statement", ast.Pass()
            case ast.Constant(value):
                yield from self._constants(value)

    def _constants(self, value: object) -> Iterator[tuple[str, ast.AST]]:
        """Yield what a constant can become."""
        if isinstance(value, bool):
            yield "boolean", ast.Constant(not value)
        elif isinstance(value, int | float):
            yield "constant", ast.Constant(value + 1)
            yield "constant", ast.Constant(value - 1)
        elif isinstance(value, str) and self.has_templates:
            for found in _IN_TEXT.finditer(value):
                old = found[0]
                new = _WRITTEN.get(old) or str(int(old) + 1)
                yield "text", ast.Constant(value[: found.start()] + new + value[found.end() :])


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST, Put]]:
    """Yield the parts of a node: the name of the field, the part, and how to replace it."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            for place, one in enumerate(value):
                if isinstance(one, ast.AST):
                    yield name, one, partial(value.__setitem__, place)
        elif isinstance(value, ast.AST):
            yield name, value, partial(setattr, node, name)


def _is_idle(node: ast.AST) -> bool:
    """Whether a node is a docstring, writes to a log, or counts what nothing depends on."""
    match node:
        case ast.Expr(ast.Constant()):
            return True
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), called))):
            return ("log" in name or name == "warnings") and called in _LOGGED
        case ast.AugAssign(target):
            return ast.unparse(target).startswith(_COUNTED)
    return False


def _first_argument(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """Return the name of the first argument that is neither ``self`` nor ``cls``."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    return next((name for name in names if name not in ("self", "cls")), None)


def _shown(node: ast.AST) -> str:
    """Return the source of a node; of a statement with a body, its first line."""
    return ast.unparse(ast.fix_missing_locations(copy.copy(node))).partition("\n")[0]


def is_template(module: str) -> bool:
    """Whether the strings of a module of PyTorch are parts of generated code."""
    return module.startswith(("torch._inductor.codegen.", "torch._inductor.kernel.")) or (
        module == "torch._inductor.select_algorithm"
    )


def changed(source: bytes, module: str, number: int | None) -> ast.Module:
    """Return the syntax tree of a module with one change, or with a note of each line.

    Args:
        source: The source of the module.
        module: Its name.
        number: The number of the site that is changed. None changes nothing, and has each
            statement of a function note its line in `LINES`.
    """
    tree = ast.parse(source)
    if number is None:
        _note_lines(tree, inside=False)
    else:
        sites(tree, has_templates=is_template(module))[number].apply()
    return ast.fix_missing_locations(tree)


def _note_lines(node: ast.AST, *, inside: bool) -> None:
    """Insert a call before each statement of each function."""
    inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in ast.iter_child_nodes(node):
        _note_lines(child, inside=inside)
    for name, value in ast.iter_fields(node):
        if not inside or not isinstance(value, list) or not isinstance(node, ast.AST):
            continue
        if not value or not all(isinstance(one, ast.stmt) for one in value):
            continue
        noted = []
        for one in value:
            call = ast.Call(ast.Name("_note_line", ast.Load()), [ast.Constant(one.lineno)], [])
            noted += [one] if _is_idle(one) else [ast.copy_location(ast.Expr(call), one), one]
        setattr(node, name, noted)


class _Loader(SourceFileLoader):
    """Compiles the changed source each time."""

    def __init__(self, name: str, path: str, number: int | None) -> None:
        super().__init__(name, path)
        self.number = number

    def get_code(self, fullname: str) -> CodeType:
        tree = changed(self.get_data(self.path), fullname, self.number)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["_note_line"] = LINES.setdefault(module.__name__, set()).add
        super().exec_module(module)


class Finder:
    """Finds the modules that are changed."""

    def __init__(self, changes: Mapping[str, int | None]) -> None:
        self.changes = changes

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return how to load a module that is changed, and None for others."""
        if name not in self.changes:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(name, spec.origin, self.changes[name])
        return spec


def install(changes: Mapping[str, int | None]) -> None:
    """Change modules when they are imported: for each, the number of a site, or None."""
    sys.meta_path.insert(0, Finder(changes))
