"""The definitions of source files that some code needs: also of modules of the user's team."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

from compilegate.layout import PACKAGE
from compilegate.triage.source import team_modules
from compilegate.triage.source.changing import is_filled_elsewhere, knows_its_place
from compilegate.triage.source.members import (
    imported_inside,
    imports_in,
    modules_of,
    named_directly,
    without_dots,
    without_stars,
)
from compilegate.triage.source.plain import plain
from compilegate.triage.source.resolving import fills_registry
from compilegate.triage.source.syntax import (
    absolute,
    bound,
    called_operators,
    defines,
    is_recipe,
    named_operators,
    text_of,
    uses,
)

#: What a script defines itself.
_OWN = {"Example", "Call", "torch", "nn", "F"}
#: With more lines than this, a definition of a team's module is imported instead.
_LONGEST = 120

#: How a script gets what the team's modules have. Where it imports any of them, all that they do to
#: PyTorch is done by importing them: an operator must not be registered twice.
Way = Literal["copies", "copies, and imports effects", "imports"]


class NoSourceError(Exception):
    """The source of a recipe cannot be taken out of its file. The text says why."""


class Gathered:
    """What is taken out of files so far.

    Args:
        folder: The folder of the zoo file, where modules of the team are found.
        way: How the script gets what they have.

    Attributes:
        folder: The same.
        way: The same.
        names: The names that are bound, and by what.
        reserved: The names that the zoo file defines: another file must not.
        modules: The modules of the team that are imported, and the folder that has each.
        sources: The files.
        taken: All code that was taken.
    """

    def __init__(self, folder: Path, way: Way = "copies") -> None:
        self.folder, self.way = folder, way
        self.names: dict[str, str] = {}
        self.reserved: dict[str, str] = {}
        self.modules: dict[str, Path] = {}
        self.sources: dict[Path, Source] = {}
        self.taken: list[ast.AST] = []
        self._files: dict[str, Path | None] = {}

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
        if name not in self._files:
            is_due = team_modules.is_of_team(name, self.folder)
            self._files[name] = team_modules.file_of(name, self.folder) if is_due else None
        file = self._files[name]
        return self.source(file, name) if file is not None else None

    def to_copy(self, name: str) -> Source | None:
        """Return a module whose definitions are copied; None where the script imports it."""
        is_shipped = name.startswith("compilegate.")
        return self.module(name) if is_shipped or self.way != "imports" else None

    def exports(self, name: str) -> list[str]:
        """Return the names that a star imports from a module that is copied; none of others."""
        found = self.to_copy(name)
        return [each for each in found.defined if each[0] != "_"] if found is not None else []

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

    Attributes:
        file: The same.
        gathered: The same.
        module: The same.
        package: Its package.
        body: Its statements.
        defined: The statement that defines each name of its top level.
    """

    def __init__(self, file: Path, gathered: Gathered, module: str = "") -> None:
        try:
            body = plain(file.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, UnicodeError) as error:
            raise NoSourceError(f"{file.name} cannot be read: {error}") from error
        self.file, self.gathered, self.module = file, gathered, module
        self.package = module if file.stem == "__init__" else module.rpartition(".")[0]
        self.defined: dict[str, ast.stmt] = {}
        gathered.sources[file] = self
        without_dots(body, self.package)
        self.body = [*without_stars(body, self.package, gathered.exports)]
        for node in self.body:
            self.defined |= dict.fromkeys(defines(node), node)
        if len(gathered.sources) == 1:
            gathered.reserved = {
                name: self.meaning(node)
                for name, node in self.defined.items()
                if not isinstance(node, (ast.Import, ast.ImportFrom)) and not is_recipe(node)
            }

    def functions(self) -> Iterator[ast.FunctionDef]:
        """Yield the functions at the top level."""
        return (node for node in self.body if isinstance(node, ast.FunctionDef))

    def needed(self, node: ast.AST) -> Iterator[str]:
        """Yield the definitions that code needs, each after those that it needs itself.

        Imports in the code whose definitions are taken are removed from it.

        Raises:
            NoSourceError: It needs compilegate.
        """
        self.gathered.taken.append(node)
        modules, inside = modules_of(self.body, self.package), modules_of(imports_in(node), "")
        of_team = {name: other for name, other in inside.items() if self.gathered.module(other)}
        yield from named_directly(node, modules, of_team, self._member)
        own = {*uses(node), "*"}
        yield from imported_inside(node, lambda one, alias: self._replaced(one, alias, own))
        for name in dict.fromkeys((*uses(node), "*")):
            if name in own:
                yield from self.definition(name)

    def definition(self, name: str) -> Iterator[str]:
        """Yield the definition of a name at the top level, after what it needs."""
        found = self.defined.get(name)
        if found is None or name in _OWN:
            return
        if isinstance(found, (ast.Import, ast.ImportFrom)):
            # Several statements may import parts of one package.
            all_of_it = [n for n in self.body if isinstance(n, ast.Import)]
            for node in all_of_it if isinstance(found, ast.Import) else [found]:
                for alias in (each for each in node.names if bound(each) == name):
                    yield from self._imported(node, alias)
        elif team_modules.is_of_team(self.module, self.gathered.folder) and self._is_fixed(
            found, name
        ):
            raise NoSourceError(f"{name} works in {self.module} alone")
        elif self.claims(found):
            yield from self.copy_of(found)

    def _is_fixed(self, node: ast.stmt, name: str) -> bool:
        """Whether a definition works in its own module alone: others fill it, or it has a place."""
        root = team_modules.root_of(self.module, self.gathered.folder)
        return knows_its_place(node) or is_filled_elsewhere(node, name, self.file, root)

    def meaning(self, node: ast.stmt) -> str:
        """Return what a name means that a statement defines: its file and line."""
        return f"{self.file}:{node.lineno}"

    def claims(self, node: ast.stmt) -> bool:
        """Bind what a statement defines. Return whether it was not taken yet."""
        meaning = self.meaning(node)
        is_new = meaning not in self.gathered.names.values()
        for name in defines(node):
            self.gathered.bind(name, meaning)
        return is_new

    def copy_of(self, node: ast.stmt) -> Iterator[str]:
        """Yield a statement as a script has it, after what it needs."""
        # A definition that cannot be taken here may be taken elsewhere: it stays as it was.
        node = copy.deepcopy(node)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found = [d for d in node.decorator_list if not fills_registry(self, d)]
            node.decorator_list = [d for d in found if self.is_portable(d)]
        yield from self.needed(node)
        yield f"{text_of(node)}\n"

    def is_portable(self, decorator: ast.expr) -> bool:
        """Whether a script may have a decorator: it needs nothing of compilegate, as models do."""
        found = copy.deepcopy(decorator)
        return self._tried(lambda: self.needed(found), keep=False) is not None

    def _tried(self, take: Callable[[], Iterable[str]], *, keep: bool = True) -> list[str] | None:
        """Take something; return None, and take nothing, where it cannot be taken."""
        gathered = self.gathered
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

    def _replaced(
        self, node: ast.Import | ast.ImportFrom, alias: ast.alias, used: set[str]
    ) -> list[str] | None:
        """Take what an import in a function imports; None where the import stays.

        Args:
            node: The statement.
            alias: What it imports.
            used: The names that the function then still uses.
        """
        module = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        is_unused = self.gathered.way == "copies" and bound(alias) not in used
        if is_unused and self.gathered.module(module) is not None:
            return []  # it is made for its effects, which are copied
        lines = [*self._imported(node, alias, is_inside=True)]
        return lines if lines or ".py:" in self.gathered.names.get(bound(alias), "") else None

    def _member(self, module: str, name: str) -> list[str] | None:
        """Take what a module of the team defines, unless it is a variable that may change."""
        other = self.gathered.to_copy(module)
        found = other.defined.get(name) if other is not None else None
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
        module = absolute(node, self.package) if isinstance(node, ast.ImportFrom) else alias.name
        if isinstance(node, ast.ImportFrom) and module.startswith("compilegate.fixtures."):
            yield from self._from(module, alias)
            return
        if module.partition(".")[0] == "compilegate":
            raise NoSourceError(f"the recipe needs {bound(alias)} of {module}")
        is_of_team = team_modules.is_of_team(module, self.gathered.folder)
        lines = None
        if isinstance(node, ast.ImportFrom) and is_of_team:
            lines = self._tried(lambda: self._from(module, alias))
        if lines is not None:
            yield from lines
            return
        if is_of_team and (path := team_modules.path_of(module, self.gathered.folder)) is not None:
            self.gathered.modules[module] = path
        one = ast.ImportFrom(module, [alias], 0) if isinstance(node, ast.ImportFrom) else None
        text = text_of(one or ast.Import([alias]))
        # A package's parts, and stars, do not exclude each other.
        name = alias.asname or alias.name if alias.name != "*" else text
        if not is_inside and self.gathered.names.get(name) != text:
            self.gathered.bind(name, text)
            yield text

    def _from(self, module: str, alias: ast.alias) -> Iterator[str]:
        """Yield the definition of what a module of the team, or of the zoo, defines."""
        other = self.gathered.to_copy(module)
        if other is None or alias.name not in other.defined:
            raise NoSourceError(f"{module} does not define {alias.name}")
        before = len(self.gathered.modules)
        yield from other.definition(alias.name)
        if len(self.gathered.modules) > before:
            raise NoSourceError(f"{alias.name} needs more of the team")
        if alias.asname and alias.asname != alias.name:
            text = f"{alias.asname} = {alias.name}"
            if self.gathered.names.get(alias.asname) != f"{other.file}.py: {text}":
                self.gathered.bind(alias.asname, f"{other.file}.py: {text}")
                yield text
