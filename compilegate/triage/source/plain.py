"""Source without what a script does not need: annotations, docstrings, examples as dictionaries."""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields

from compilegate.triage.source.syntax import last_name
from compilegate.zoo.example import Example

#: The fields of an example that a script uses.
_FIELDS = ("module", "inputs", "kwargs", "calls", "output", "config", "with_grad", "dims")
#: All fields of an example.
_OF_EXAMPLE = {field.name for field in fields(Example)}
#: The parameters of an example and of a call that may be given by position.
_POSITIONS = {"Example": ("module", "inputs", "kwargs"), "Call": ("args", "kwargs", "before")}
#: What reads the annotations of a function: a custom operator takes its schema from them.
_READS_TYPES = {"custom_op", "triton_op", "infer_schema"}

#: The operators of PyTorch, or those of one namespace.
_OPERATORS = re.compile(r"torch\.ops(\.\w+)?")


def plain(text: str) -> list[ast.stmt]:
    """Return the statements of a file as a script has them.

    Imports that only a type checker sees become plain ones: an operator's annotations need them.

    Raises:
        SyntaxError: It is no Python.
    """
    tree = ast.parse(text)
    names = {
        argument.id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and last_name(call.func) in _READS_TYPES
        for argument in call.args
        if isinstance(argument, ast.Name)
    }
    spelt = _Spelt(_short_for_operators(tree))
    found = [_Plain(names).visit(node) for each in tree.body for node in _unfolded(each)]
    return [spelt.visit(node) for node in found if node is not None]


def _short_for_operators(tree: ast.Module) -> dict[str, ast.expr]:
    """Return what a file has short names for: ``aten = torch.ops.aten``."""
    found = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and _OPERATORS.fullmatch(ast.unparse(node.value))
    }
    bound = Counter(
        each.id if isinstance(each, ast.Name) else each.arg
        for each in ast.walk(tree)
        if isinstance(each, ast.arg)
        or (isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    )
    return {name: value for name, value in found.items() if bound[name] == 1}


class _Spelt(ast.NodeTransformer):
    """Writes ``torch.ops.aten`` for a short name of it, so that code tells its operators.

    Args:
        short: The short names, and what they are short for.
    """

    def __init__(self, short: Mapping[str, ast.expr]) -> None:
        self._short = short

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_read = node.id in self._short and not isinstance(getattr(node, "ctx", None), ast.Store)
        return copy.deepcopy(self._short[node.id]) if is_read else node


def _unfolded(node: ast.stmt) -> list[ast.stmt]:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            return node.body
    return [node]


class _Plain(ast.NodeTransformer):
    """Leaves out annotations and docstrings, and writes examples and calls as dictionaries.

    Args:
        typed: The names of functions that keep their annotations.
    """

    def __init__(self, typed: set[str]) -> None:
        self._typed = typed

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.body = _without_docstring(node.body)
        if node.name in self._typed or _READS_TYPES.intersection(
            map(last_name, node.decorator_list)
        ):
            return node
        node.returns = None
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        for starred in (node.args.vararg, node.args.kwarg):
            if starred is not None:
                starred.annotation = None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        reads_types = node.decorator_list or "NamedTuple" in map(last_name, node.bases)
        kept = [n for n in node.body if reads_types and isinstance(n, ast.AnnAssign)]
        fields = {id(each): each for each in kept}
        node.body = [n if id(n) in fields else self.visit(n) for n in node.body]
        node.body = _without_docstring([n for n in node.body if n is not None])
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        if node.value is None or not node.simple:
            return node
        return ast.Assign([node.target], node.value, lineno=node.lineno)

    def visit_Import(self, node: ast.Import) -> ast.Import | None:
        return None if [(n.name, n.asname) for n in node.names] == [("torch", None)] else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if last_name(node.func) == "replace" and _changes_example(node):
            kept = [word for word in node.keywords if word.arg in _FIELDS]
            return ast.Call(ast.Name("dict"), node.args, kept) if kept else node.args[0]
        if name not in _POSITIONS:
            return node
        words = [ast.keyword(*each) for each in zip(_POSITIONS[name], node.args, strict=False)]
        words += [w for w in node.keywords if name == "Call" or w.arg in _FIELDS]
        return ast.Call(ast.Name("dict"), [], words)


def _changes_example(node: ast.Call) -> bool:
    """Whether a call of ``dataclasses.replace`` changes an example, as its keywords tell."""
    words = {word.arg for word in node.keywords}
    return len(node.args) == 1 and bool(words) and words <= _OF_EXAMPLE


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest or [ast.Pass()]
    return body or [ast.Pass()]
