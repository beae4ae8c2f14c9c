"""The source of a model's recipe, with all that it needs of its file: a script has no zoo."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from compilegate.layout import PACKAGE

#: The fields of an example that a script uses.
_FIELDS = ("module", "inputs", "kwargs", "calls", "output", "config", "with_grad", "dims")
#: What a script defines itself.
_OWN = {"Example", "Call", "torch", "nn", "F"}
#: The parameters of an example and of a call that may be given by position.
_POSITIONS = {"Example": ("module", "inputs", "kwargs"), "Call": ("args", "kwargs", "before")}


class NoSourceError(Exception):
    """The source of a recipe cannot be taken out of its file. The text says why."""


def recipe_lines(file: Path, model: str, device: str) -> list[str]:
    """Return the lines that define a model's recipe as the function ``recipe``.

    Args:
        file: The file that defines it.
        model: Its name.
        device: The device that it is given, if it takes one.

    Raises:
        NoSourceError: No function of the file is decorated with this name, or it needs compilegate.
    """
    source = _Source(file)
    found = next((node for node in source.functions() if _is_named(node, model)), None)
    if found is None:
        raise NoSourceError(f"no function in {file.name} is decorated with the name {model!r}")
    if [argument.arg for argument in found.args.args] == ["device"]:
        found.args.defaults = [ast.Constant(device)]
    elif found.args.args:
        raise NoSourceError("the recipe takes arguments")
    found.name, found.decorator_list = "recipe", []
    lines = [*source.needed(found, set(_OWN)), _text(found)]
    return "\n".join(lines).splitlines()


def _is_named(node: ast.FunctionDef, model: str) -> bool:
    calls = (each for each in node.decorator_list if isinstance(each, ast.Call) and each.args)
    return any(isinstance(a := c.args[0], ast.Constant) and a.value == model for c in calls)


class _Source:
    """A file, and the definitions at its top level."""

    def __init__(self, file: Path) -> None:
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, UnicodeError) as error:
            raise NoSourceError(f"{file.name} cannot be read: {error}") from error
        self._body = [_Plain().visit(node) for node in tree.body]
        self._defined: dict[str, ast.stmt] = {}
        for node in self._body:
            self._defined |= dict.fromkeys(_defines(node), node)

    def functions(self) -> Iterator[ast.FunctionDef]:
        return (node for node in self._body if isinstance(node, ast.FunctionDef))

    def needed(self, node: ast.AST, known: set[str]) -> Iterator[str]:
        """Yield the definitions that code needs, each after those that it needs itself."""
        for name in dict.fromkeys(_uses(node)):
            found = self._defined.get(name)
            if found is None or name in known:
                continue
            known.add(name)
            if isinstance(found, (ast.Import, ast.ImportFrom)):
                yield from self._imported(found, name, known)
            else:
                known.update(_defines(found))
                if isinstance(found, ast.FunctionDef):
                    found.decorator_list = [d for d in found.decorator_list if self._is_portable(d)]
                yield from self.needed(found, known)
                yield f"{_text(found)}\n"

    def _is_portable(self, decorator: ast.expr) -> bool:
        """Whether a script may have a decorator: it needs nothing of compilegate, as models do."""
        try:
            for _ in self.needed(decorator, set(_OWN)):
                pass
        except NoSourceError:
            return False
        return True

    def _imported(
        self, node: ast.Import | ast.ImportFrom, name: str, known: set[str]
    ) -> Iterator[str]:
        alias = next(each for each in node.names if _bound(each) == name)
        module = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
        if module.startswith("compilegate.fixtures."):
            other = _Source(PACKAGE / "fixtures" / f"{module.rpartition('.')[2]}.py")
            yield from other.needed(ast.Name(alias.name), known - {alias.name})
        elif module.partition(".")[0] == "compilegate":
            raise NoSourceError(f"the recipe needs {name} of {module}")
        elif isinstance(node, ast.ImportFrom):
            yield _text(ast.ImportFrom(node.module, [alias], node.level))
        else:
            yield _text(ast.Import([alias]))


def _defines(node: ast.stmt) -> Iterable[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [n.id for each in targets for n in ast.walk(each) if isinstance(n, ast.Name)]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [_bound(alias) for alias in names]
    return []


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _uses(node: ast.AST) -> Iterator[str]:
    return (found.id for found in ast.walk(node) if isinstance(found, ast.Name))


def _text(node: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(node))


class _Plain(ast.NodeTransformer):
    """Leaves out annotations and docstrings, and writes examples and calls as dictionaries."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        for starred in (node.args.vararg, node.args.kwarg):
            if starred is not None:
                starred.annotation = None
        node.body = _without_docstring(node.body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.body = _without_docstring(node.body)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        if node.value is None or not node.simple:
            return node
        return ast.Assign([node.target], node.value, lineno=node.lineno)

    def visit_Import(self, node: ast.Import) -> ast.Import | None:
        return None if [(n.name, n.asname) for n in node.names] == [("torch", None)] else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in _POSITIONS:
            return node
        words = [ast.keyword(*each) for each in zip(_POSITIONS[name], node.args, strict=False)]
        words += [w for w in node.keywords if name == "Call" or w.arg in _FIELDS]
        return ast.Call(ast.Name("dict"), [], words)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest or [ast.Pass()]
    return body
