"""The definitions of source files that some code needs: also of modules of the user's team."""

from __future__ import annotations

import ast
import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from compilegate.layout import PACKAGE
from compilegate.triage import team_modules
from compilegate.triage.members import (
    imported_inside,
    modules_imported,
    modules_of,
    named_directly,
    without_stars,
)
from compilegate.triage.plain_source import plain
from compilegate.triage.syntax import (
    absolute,
    bound,
    called_operators,
    defines,
    is_recipe,
    named_operators,
    root,
    sets_torch,
    text_of,
    uses,
)

#: What a script defines itself.
_OWN = {"Example", "Call", "torch", "nn", "F"}
#: The namespaces of PyTorch's own operators: what a team registers for them changes any model.
_OF_TORCH = {"aten", "prims"}
#: With more lines than this, a definition of a team's module is imported instead.
_LONGEST = 120


class NoSourceError(Exception):
    """The source of a recipe cannot be taken out of its file. The text says why."""


class Gathered:
    """What is taken out of files so far.

    Args:
        folder: The folder of the zoo file, where modules of the team are found.

    Attributes:
        folder: The same.
        names: The names that are bound, and by what.
        reserved: The names that the zoo file defines: another file must not.
        modules: The modules of the team that are imported, and the folder that has each.
        sources: The files.
        taken: All code that was taken.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, str] = {}
        self.reserved: dict[str, str] = {}
        self.modules: dict[str, Path] = {}
        self.sources: dict[Path, Source] = {}
        self.taken: list[ast.AST] = []

    def bind(self, name: str, meaning: str) -> None:
        """Bind a name.

        Raises:
            NoSourceError: It is bound to something else.
        """
        before = self.names.setdefault(name, self.reserved.get(name, meaning))
        if before != meaning and name != "_":
            raise NoSourceError(f"two files define {name}")

    def source(self, file: Path, module: str) -> Source:
        """Return a file, which is read once."""
        if file not in self.sources:
            Source(file, self, module)
        return self.sources[file]

    def module(self, name: str) -> Source | None:
        """Return a module of the team, or of the shipped zoo; None if it has no source."""
        if name.startswith("compilegate.fixtures."):
            return self.source(PACKAGE / "fixtures" / f"{name.rpartition('.')[2]}.py", name)
        is_due = team_modules.is_of_team(name, self.folder)
        file = team_modules.file_of(name, self.folder) if is_due else None
        return self.source(file, name) if file is not None else None

    def _in_order(self) -> list[Source]:
        """Return the files and the team's that they import, each after its imports, as it runs."""
        seen: set[Path] = set()
        found: list[Source] = []

        def visit(source: Source) -> None:
            if source._file in seen:
                return
            seen.add(source._file)
            for name in modules_imported(source._body, source._package):
                with contextlib.suppress(NoSourceError):
                    if name.partition(".")[0] != "compilegate" and (other := self.module(name)):
                        visit(other)
            found.append(source)

        for each in [*self.sources.values()]:
            visit(each)
        return found

    def exports(self, name: str) -> list[str]:
        """Return the names that a star imports from a module of the team; none of others."""
        found = self.module(name)
        return [each for each in found._defined if each[0] != "_"] if found is not None else []

    def effects(self) -> Iterator[str]:
        """Yield what files do at their top level to that which was taken: register a gradient.

        These are the zoo file, what it imports of the team, and what that imports.
        """
        sources = self._in_order()
        done: set[int] = set()
        count = -1
        while count != len(done):
            count = len(done)
            for source in sources:
                yield from source.effects(done)

    def operators(self) -> set[str]:
        """Return the operators that the code calls or defines: ``my::op``, and ``my`` alone."""
        found: set[str] = set()
        for called in (name for code in self.taken for name in called_operators(code)):
            found |= {called, called.partition(":")[0]}
        for node in (each for code in self.taken for each in ast.walk(code)):
            match node:
                case ast.FunctionDef(decorator_list=decorators):
                    found |= {text for one in decorators for text in named_operators(one)}
                case ast.Assign(value=ast.Call() as made):
                    found |= named_operators(made)
        return found


class Source:
    """A file, and the definitions at its top level.

    Args:
        file: The file.
        gathered: Receives what is taken out of it.
        module: Its name as a module; empty for a zoo file.
    """

    def __init__(self, file: Path, gathered: Gathered, module: str = "") -> None:
        try:
            body = plain(file.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, UnicodeError) as error:
            raise NoSourceError(f"{file.name} cannot be read: {error}") from error
        self._file, self._gathered = file, gathered
        self._package = module if file.stem == "__init__" else module.rpartition(".")[0]
        self._defined: dict[str, ast.stmt] = {}
        gathered.sources[file] = self
        self._body = [*without_stars(body, self._package, gathered.exports)]
        for node in self._body:
            self._defined |= dict.fromkeys(defines(node), node)
        if len(gathered.sources) == 1:
            gathered.reserved = {
                name: self._meaning(node)
                for name, node in self._defined.items()
                if not isinstance(node, (ast.Import, ast.ImportFrom)) and not is_recipe(node)
            }

    def functions(self) -> Iterator[ast.FunctionDef]:
        """Yield the functions at the top level."""
        return (node for node in self._body if isinstance(node, ast.FunctionDef))

    def needed(self, node: ast.AST) -> Iterator[str]:
        """Yield the definitions that code needs, each after those that it needs itself.

        Imports in the code whose definitions are taken are removed from it.

        Raises:
            NoSourceError: It needs compilegate.
        """
        self._gathered.taken.append(node)
        own = {*uses(node), "*"}
        yield from imported_inside(node, self._replaced)
        yield from named_directly(node, modules_of(self._body, self._package), self._member)
        for name in dict.fromkeys((*uses(node), "*")):
            if name in own:
                yield from self.definition(name)

    def definition(self, name: str) -> Iterator[str]:
        """Yield the definition of a name at the top level, after what it needs."""
        found = self._defined.get(name)
        if found is None or name in _OWN:
            return
        if isinstance(found, (ast.Import, ast.ImportFrom)):
            # Several statements may import parts of one package.
            all_of_it = [n for n in self._body if isinstance(n, ast.Import)]
            for node in all_of_it if isinstance(found, ast.Import) else [found]:
                for alias in (each for each in node.names if bound(each) == name):
                    yield from self._imported(node, alias)
        elif self._bind(found):
            yield from self._taken(found)

    def _meaning(self, node: ast.stmt) -> str:
        return f"{self._file}:{node.lineno}"

    def _bind(self, node: ast.stmt) -> bool:
        """Bind what a statement defines. Return whether it was not taken yet."""
        meaning = self._meaning(node)
        is_new = meaning not in self._gathered.names.values()
        for name in defines(node):
            self._gathered.bind(name, meaning)
        return is_new

    def _taken(self, node: ast.stmt) -> Iterator[str]:
        # A definition that cannot be taken here may be taken elsewhere: it stays as it was.
        node = copy.deepcopy(node)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.decorator_list = [d for d in node.decorator_list if self._is_portable(d)]
        yield from self.needed(node)
        yield f"{text_of(node)}\n"

    def _is_portable(self, decorator: ast.expr) -> bool:
        """Whether a script may have a decorator: it needs nothing of compilegate, as models do."""
        found = copy.deepcopy(decorator)
        return self._tried(lambda: self.needed(found), keep=False) is not None

    def _tried(self, take: Callable[[], Iterable[str]], *, keep: bool = True) -> list[str] | None:
        """Take something; return None, and take nothing, where it cannot be taken."""
        gathered = self._gathered
        before = dict(gathered.names), dict(gathered.modules), [*gathered.taken]
        lines: list[str] | None
        try:
            lines = [*take()]
        except NoSourceError:
            lines = None
        if not keep or lines is None or sum(one.count("\n") + 1 for one in lines) > _LONGEST:
            gathered.names, gathered.modules, gathered.taken = before
            lines = lines if not keep else None
        return lines

    def effects(self, done: set[int]) -> Iterator[str]:
        """Yield the statements that change what was taken, such as registrations of operators.

        Args:
            done: The statements that were looked at. It grows.
        """
        for node in self._body:
            if id(node) not in done and self._affects(node):
                done.add(id(node))
                if self._bind(node):
                    yield from self._taken(node)

    def _affects(self, node: ast.stmt) -> bool:
        match node:
            case ast.FunctionDef(decorator_list=found) | ast.ClassDef(decorator_list=found):
                return any(self._registers(one) and self._is_portable(one) for one in found)
            case ast.Expr(value=ast.Call() as call):
                # What registers an operator is due for that one alone.
                is_option = not named_operators(call) and sets_torch(call.func, self._defined)
                return (self._registers(call) or is_option) and self._is_portable(call)
            case ast.Assign(targets=[ast.Name()], value=ast.Call(func=made, args=args)):
                first = args[0] if args else None
                is_library = text_of(made).endswith("Library") and isinstance(first, ast.Constant)
                return is_library and getattr(first, "value", "") in self._gathered.operators()
            case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
                is_inside = isinstance(target, (ast.Attribute, ast.Subscript))
                return is_inside and (self._owns(root(target)) or sets_torch(target, self._defined))
        return False

    def _registers(self, node: ast.expr) -> bool:
        """Whether a decorator or a call is about an operator or a variable that was taken."""
        if named := named_operators(node):
            is_of_torch = any(name.partition(":")[0] in _OF_TORCH for name in named)
            return is_of_torch or not self._gathered.operators().isdisjoint(named)
        return any(map(self._owns, uses(node)))

    def _owns(self, name: str) -> bool:
        """Whether a name was taken from this file, and is no import."""
        found = self._defined.get(name)
        return found is not None and self._gathered.names.get(name) == self._meaning(found)

    def _replaced(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> list[str] | None:
        lines = [*self._imported(node, alias, is_inside=True)]
        return lines if lines or ".py:" in self._gathered.names.get(bound(alias), "") else None

    def _member(self, module: str, name: str) -> list[str] | None:
        """Take what a module of the team defines, unless it is a variable that may change."""
        other = self._gathered.module(module)
        found = other._defined.get(name) if other is not None else None
        if found is None or (isinstance(found, ast.Assign) and not name.isupper()):
            return None
        return self._tried(lambda: self._from(module, ast.alias(name)))

    def _imported(
        self, node: ast.Import | ast.ImportFrom, alias: ast.alias, *, is_inside: bool = False
    ) -> Iterator[str]:
        """Yield an import, or the definitions for it.

        Args:
            node: The statement.
            alias: What it imports.
            is_inside: Whether it stands in a function, where it stays if nothing replaces it.
        """
        module = absolute(node, self._package) if isinstance(node, ast.ImportFrom) else alias.name
        if isinstance(node, ast.ImportFrom) and module.startswith("compilegate.fixtures."):
            yield from self._from(module, alias)
            return
        if module.partition(".")[0] == "compilegate":
            raise NoSourceError(f"the recipe needs {bound(alias)} of {module}")
        is_of_team = team_modules.is_of_team(module, self._gathered.folder)
        lines = None
        if isinstance(node, ast.ImportFrom) and is_of_team:
            lines = self._tried(lambda: self._from(module, alias))
        if lines is not None:
            yield from lines
            return
        if is_of_team and (path := team_modules.path_of(module, self._gathered.folder)) is not None:
            self._gathered.modules[module] = path
        one = ast.ImportFrom(module, [alias], 0) if isinstance(node, ast.ImportFrom) else None
        text = text_of(one or ast.Import([alias]))
        # A package's parts, and stars, do not exclude each other.
        name = alias.asname or alias.name if alias.name != "*" else text
        if not is_inside and self._gathered.names.get(name) != text:
            self._gathered.bind(name, text)
            yield text

    def _from(self, module: str, alias: ast.alias) -> Iterator[str]:
        """Yield the definition of what a module of the team, or of the zoo, defines."""
        other = self._gathered.module(module)
        if other is None or alias.name not in other._defined:
            raise NoSourceError(f"{module} does not define {alias.name}")
        before = len(self._gathered.modules)
        yield from other.definition(alias.name)
        if len(self._gathered.modules) > before:
            raise NoSourceError(f"{alias.name} needs more of the team")
        if alias.asname and alias.asname != alias.name:
            text = f"{alias.asname} = {alias.name}"
            if self._gathered.names.get(alias.asname) != f"{other._file}.py: {text}":
                self._gathered.bind(alias.asname, f"{other._file}.py: {text}")
                yield text
