"""Code that reaches the source of a team's modules by an import: it names the definitions instead.

``layers.Foo`` becomes ``Foo``, and an import inside a function goes where a script has a copy.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping

from compilegate.triage.source.syntax import absolute, bound

#: Takes a definition of a module, or an import: its lines, perhaps none; None where it cannot.
TakesMember = Callable[[str, str], "list[str] | None"]
TakesImport = Callable[["ast.Import | ast.ImportFrom", ast.alias], "list[str] | None"]


def without_stars(
    body: Iterable[ast.stmt], package: str, exports: Callable[[str], Iterable[str]]
) -> Iterator[ast.stmt]:
    """Yield the statements of a file, which name what they import from modules of the team.

    Args:
        body: The statements.
        package: The package of the file.
        exports: Returns what a module of the team exports; nothing for other modules.
    """
    for node in body:
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                found = [ast.alias(name) for name in exports(absolute(node, package))]
                yield ast.ImportFrom(node.module, found or node.names, node.level)
            case _:
                yield node


def modules_of(body: Iterable[ast.stmt], package: str) -> dict[str, str]:
    """Return the module that each imported name of a file would be, if it is a module.

    Args:
        body: The statements of the file.
        package: Its package.
    """
    found: dict[str, str] = {}
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[bound(alias)] = alias.name if alias.asname else bound(alias)
        if isinstance(node, ast.ImportFrom):
            module = absolute(node, package)
            found |= {bound(alias): f"{module}.{alias.name}" for alias in node.names}
    return found


def modules_imported(body: Iterable[ast.stmt], package: str) -> Iterator[str]:
    """Yield the modules that a file may import, each after the packages that it is in.

    Args:
        body: The statements of the file.
        package: Its package.
    """
    for node in body:
        found = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found += modules_of([node], package).values()
        for module in found:
            parts = module.split(".")
            yield from (".".join(parts[:count]) for count, _ in enumerate(parts, 1))


def imports_in(node: ast.AST) -> list[ast.stmt]:
    """Return the imports that stand in some code."""
    return [n for n in ast.walk(node) if isinstance(n, (ast.Import, ast.ImportFrom))]


def without_dots(body: Iterable[ast.stmt], package: str) -> None:
    """Make relative imports absolute, in place: a script is in no package.

    Args:
        body: The statements of a file.
        package: Its package.
    """
    for node in (each for statement in body for each in imports_in(statement)):
        if isinstance(node, ast.ImportFrom) and node.level:
            node.module, node.level = absolute(node, package), 0


def named_directly(
    node: ast.AST, modules: Mapping[str, str], own: Mapping[str, str], take: TakesMember
) -> list[str]:
    """Replace attributes of modules by their names, in place. Return the lines that define them.

    Args:
        node: The code.
        modules: The module that each variable of its file names.
        own: The same, of what the code imports inside functions.
        take: Takes the definition of a module's attribute.
    """
    found = _Direct(node, modules, own, take)
    found.visit(node)
    return found.lines


class _Direct(ast.NodeTransformer):
    def __init__(
        self, node: ast.AST, modules: Mapping[str, str], own: Mapping[str, str], take: TakesMember
    ) -> None:
        self.lines: list[str] = []
        self._modules, self._take = {**modules, **own}, take
        # A local variable hides a module, and the definition of which it has the name.
        self._local = {*_stored(node)} - own.keys()

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        member = self._member(node)
        if member is not None and (lines := self._take(*member)) is not None:
            self.lines += lines
            return ast.Name(member[1])
        self.generic_visit(node)
        return node

    def _member(self, node: ast.Attribute) -> tuple[str, str] | None:
        """Return the module and the name that an expression reads there."""
        names = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            names.append(inner.attr)
            inner = inner.value
        name, *between = names
        if not isinstance(inner, ast.Name) or not isinstance(node.ctx, ast.Load):
            return None
        if inner.id not in self._modules or not self._local.isdisjoint((inner.id, name)):
            return None
        return ".".join((self._modules[inner.id], *reversed(between))), name


def _stored(node: ast.AST) -> Iterator[str]:
    """Yield the variables that code sets, its parameters, and what it imports."""
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias():
                yield bound(each)


def imported_inside(node: ast.AST, take: TakesImport) -> Iterator[str]:
    """Remove from functions what they import and a script defines, in place. Yield its lines.

    Args:
        node: The code.
        take: Takes what a statement imports.
    """
    for holder in ast.walk(node):
        for block in ("body", "orelse", "finalbody"):
            body = getattr(holder, block, None)
            if not isinstance(body, list):
                continue
            for each in [n for n in body if isinstance(n, (ast.Import, ast.ImportFrom))]:
                left = []
                for alias in each.names:
                    lines = take(each, alias)
                    left += [alias] if lines is None else []
                    yield from lines or ()
                if len(left) < len(each.names):
                    at = body.index(each)
                    each.names = left
                    body[at : at + 1] = [each] if left else [ast.Pass()] * (len(body) == 1)
