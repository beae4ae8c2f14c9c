"""What files do to PyTorch where they are imported or where a recipe runs: scripts do it, too.

They register operators and lowerings, and they set options and passes of the compiler.
"""

from __future__ import annotations

import ast
import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from compilegate.triage.source import team_modules
from compilegate.triage.source.acting import (
    COMPILERS,
    acts,
    has_effects,
    has_operator,
    imports_of,
    is_due,
    is_registration,
    is_torch,
)
from compilegate.triage.source.definitions import Gathered, NoSourceError, Source
from compilegate.triage.source.members import imports_in, modules_imported
from compilegate.triage.source.syntax import dotted, named_operators, root, text_of, uses

#: Statements that hold others.
_HOLDERS = (ast.If, ast.For, ast.Try, ast.With)


class Effects:
    """What the gathered files do to PyTorch, and to what was taken out of them.

    Args:
        gathered: What was taken. The zoo file is its first file.
    """

    def __init__(self, gathered: Gathered) -> None:
        self._gathered = gathered
        self._noted: list[ast.stmt] = []

    def lines(self) -> Iterator[str]:
        """Yield what changes that which was taken, such as the registration of a gradient.

        Raises:
            NoSourceError: A script would do it twice, by a copy and by an import.
        """
        gathered, zoo = self._gathered, self._zoo
        done: set[int] = set()
        if gathered.way != "copies":
            yield from self._imports()
            yield from self._copies(lambda: [zoo], done)
            self._check()
        else:
            yield from self._copies(self._in_order, done)

    def note_imports(self, recipe: ast.FunctionDef) -> None:
        """Read the modules of the team that a recipe imports: they may register something."""
        self._noted = imports_in(recipe)
        for name in modules_imported(self._noted, ""):
            if team_modules.is_of_team(name, self._gathered.folder):
                self._gathered.module(name)

    @property
    def _zoo(self) -> Source:
        return next(iter(self._gathered.sources.values()))

    def _in_order(self) -> list[Source]:
        """Return the files and the team's that they import, each after its imports, as it runs."""
        return self._reached([*self._gathered.sources.values()], lambda one: one.body)

    def _reached(
        self, first: Iterable[Source], imports: Callable[[Source], Iterable[ast.stmt]]
    ) -> list[Source]:
        seen: set[Path] = set()
        found: list[Source] = []

        def visit(source: Source) -> None:
            if source.file in seen:
                return
            seen.add(source.file)
            for name in modules_imported(imports(source), source.package):
                with contextlib.suppress(NoSourceError):
                    is_due = name.partition(".")[0] != "compilegate"
                    if is_due and (other := self._gathered.module(name)):
                        visit(other)
            found.append(source)

        for each in first:
            visit(each)
        return found

    def _copies(self, sources: Callable[[], list[Source]], done: set[int]) -> Iterator[str]:
        count = -1
        while count != len(done):
            count = len(done)
            for source in sources():
                for node in source.body:
                    if id(node) not in done and self._affects(source, node):
                        done.add(id(node))
                        named = self._renamed(source, node)
                        if source.claims(named):
                            yield from source.copy_of(named)

    def _renamed(self, source: Source, node: ast.stmt) -> ast.stmt:
        """Give a function another name if another file has that: lowerings are called as operators.

        Nothing needs its name, where a decorator registers it.
        """
        if not isinstance(node, ast.FunctionDef) or node.name == "_":
            return node
        meaning, gathered = source.meaning(node), self._gathered
        reserved = gathered.reserved.get(node.name, meaning)
        if gathered.names.get(node.name, reserved) == meaning:
            return node
        node = copy.deepcopy(node)
        node.name = f"{node.name}_of_{source.file.stem}"
        return node

    def _imports(self) -> Iterator[str]:
        """Yield imports of the modules that the zoo file or the recipe imports for their effects.

        Where all is imported, these are all that the zoo file imports of the team.
        """
        gathered = self._gathered
        have = self._loaded(gathered.modules)
        for name in dict.fromkeys(modules_imported([*self._zoo.body, *self._noted], "")):
            other = gathered.module(name) if name.partition(".")[0] != "compilegate" else None
            if other is None:
                continue
            new = [each for each in self._loaded([name]) if each not in have]
            if any(map(has_effects, new)) or (gathered.way == "imports" and new):
                have += new
                path = team_modules.path_of(name, gathered.folder)
                assert path is not None
                gathered.modules[name] = path
                yield f"import {name}"

    def _loaded(self, names: Iterable[str], *, later: bool = False) -> list[Source]:
        """Return the files that run where modules are imported.

        Args:
            names: The modules.
            later: Whether to count those, too, that their functions import.
        """
        parts = [name.split(".") for name in names]
        every = [".".join(part[:count]) for part in parts for count, _ in enumerate(part, 1)]
        found = [each for name in every if (each := self._gathered.module(name)) is not None]
        return self._reached(
            found,
            lambda one: [n for s in one.body for n in imports_in(s)] if later else one.body,
        )

    def _check(self) -> None:
        """Refuse a copy of an operator that an imported module registers.

        Raises:
            NoSourceError: There is one.
        """
        loaded = {each.file for each in self._loaded(self._gathered.modules, later=True)}
        taken = {*self._gathered.names.values()}
        for source in self._gathered.sources.values():
            if source.file not in loaded or not source.module:
                continue
            for node in source.body:
                is_due = has_operator(node) and source.meaning(node) in taken
                if is_due and not isinstance(node, (ast.Import, ast.ImportFrom)):
                    raise NoSourceError(f"{source.module} would register an operator twice")

    def _affects(self, source: Source, node: ast.stmt) -> bool:
        match node:
            case ast.FunctionDef(decorator_list=found) | ast.ClassDef(decorator_list=found):
                return any(
                    self._registers(source, one) and source.is_portable(one) for one in found
                )
            case ast.Expr(value=ast.Call() as call):
                # What registers an operator is due for that one alone.
                is_option = not named_operators(call) and is_torch(source, call.func)
                is_wanted = self._registers(source, call) or is_option or acts(source, call, call)
                return is_wanted and source.is_portable(call)
            case ast.Assign(targets=[ast.Name()], value=ast.Call(func=made, args=args)):
                first = args[0] if args else None
                is_library = text_of(made).endswith("Library") and isinstance(first, ast.Constant)
                return is_library and getattr(first, "value", "") in self._gathered.operators()
            case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
                is_inside = isinstance(target, (ast.Attribute, ast.Subscript))
                is_ours = self._owns(source, root(target))
                return is_inside and (is_ours or acts(source, node, node))
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                return False
        inner = [n for n in ast.walk(node) if isinstance(n, ast.stmt) and n is not node]
        return isinstance(node, _HOLDERS) and any(self._affects(source, one) for one in inner)

    def _registers(self, source: Source, node: ast.expr) -> bool:
        """Whether a decorator or a call is about an operator or a variable that was taken."""
        if named_operators(node):
            return is_due(self._gathered, node)
        called = node.func if isinstance(node, ast.Call) else node
        is_ours = any(self._owns(source, name) for name in uses(node))
        return is_ours or is_registration(dotted(called, imports_of(source)), COMPILERS)

    def _owns(self, source: Source, name: str) -> bool:
        """Whether a name was taken from a file, and is no import."""
        found = source.defined.get(name)
        return found is not None and self._gathered.names.get(name) == source.meaning(found)
