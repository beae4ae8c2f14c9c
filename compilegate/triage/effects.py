"""What files do to PyTorch where they are imported or where a recipe runs: scripts do it, too.

They register operators and lowerings, and they set options and passes of the compiler.
"""

from __future__ import annotations

import ast
import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from compilegate.triage import team_modules
from compilegate.triage.members import imports_in, modules_imported, modules_of
from compilegate.triage.resolving import resolved
from compilegate.triage.source import Gathered, NoSourceError, Source
from compilegate.triage.syntax import defines, dotted, named_operators, root, text_of, uses

#: The namespaces of PyTorch's own operators: what a team registers for them changes any model.
_OF_TORCH = {"aten", "prims"}
#: The parts of PyTorch that compile.
_COMPILERS = ("torch._inductor", "torch._dynamo", "torch._functorch", "torch._decomp", "torch.fx")
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

    def set_up(self, recipe: ast.FunctionDef) -> ast.FunctionDef | None:
        """Return the part of a recipe that changes PyTorch, as a function; None if there is none.

        Args:
            recipe: The recipe.
        """
        kept: list[ast.stmt] = []
        wanted: set[str] = set()
        for node in reversed(recipe.body):
            names = {*defines(node)}
            is_import = isinstance(node, (ast.Import, ast.ImportFrom))
            acts = not isinstance(node, ast.Return) and self._acts(self._zoo, node, recipe)
            if acts or not wanted.isdisjoint(names):
                kept.insert(0, node)
                wanted |= set() if is_import else {*uses(node)}
        if not any(self._acts(self._zoo, node, recipe) for node in kept):
            return None
        made = ast.parse("def set_up(): pass").body[0]
        assert isinstance(made, ast.FunctionDef)
        made.args, made.body = recipe.args, kept
        return made

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
            if any(map(self._has_effects, new)) or (gathered.way == "imports" and new):
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
                is_due = self._has_operator(node) and source.meaning(node) in taken
                if is_due and not isinstance(node, (ast.Import, ast.ImportFrom)):
                    raise NoSourceError(f"{source.module} would register an operator twice")

    def _has_operator(self, node: ast.stmt) -> bool:
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        is_made = isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        text = text_of(node.value) if isinstance(node, ast.Assign) and is_made else ""
        return any(map(named_operators, decorators)) or "Library(" in text or "::" in text

    def _has_effects(self, source: Source) -> bool:
        """Whether a module does anything to PyTorch at its top level, also for other operators."""
        return any(
            not isinstance(node, (ast.Import, ast.ImportFrom))
            and (self._has_operator(node) or self._acts(source, node, node, is_any=True))
            for node in source.body
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.decorator_list
        )

    def _affects(self, source: Source, node: ast.stmt) -> bool:
        match node:
            case ast.FunctionDef(decorator_list=found) | ast.ClassDef(decorator_list=found):
                return any(
                    self._registers(source, one) and source.is_portable(one) for one in found
                )
            case ast.Expr(value=ast.Call() as call):
                # What registers an operator is due for that one alone.
                is_option = not named_operators(call) and _is_torch(source, call.func)
                acts = self._registers(source, call) or is_option or self._acts(source, call, call)
                return acts and source.is_portable(call)
            case ast.Assign(targets=[ast.Name()], value=ast.Call(func=made, args=args)):
                first = args[0] if args else None
                is_library = text_of(made).endswith("Library") and isinstance(first, ast.Constant)
                return is_library and getattr(first, "value", "") in self._gathered.operators()
            case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
                is_inside = isinstance(target, (ast.Attribute, ast.Subscript))
                is_ours = self._owns(source, root(target))
                return is_inside and (is_ours or self._acts(source, node, node))
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                return False
        inner = [n for n in ast.walk(node) if isinstance(n, ast.stmt) and n is not node]
        return isinstance(node, _HOLDERS) and any(self._affects(source, one) for one in inner)

    def _registers(self, source: Source, node: ast.expr) -> bool:
        """Whether a decorator or a call is about an operator or a variable that was taken."""
        if named_operators(node):
            return self._is_due(node)
        called = node.func if isinstance(node, ast.Call) else node
        is_ours = any(self._owns(source, name) for name in uses(node))
        return is_ours or _is_registration(dotted(called, _imports_of(source)), _COMPILERS)

    def _is_due(self, node: ast.AST) -> bool:
        """Whether code is about no operator, one of PyTorch, or one that was taken."""
        named = named_operators(node)
        is_of_torch = any(name.partition(":")[0] in _OF_TORCH for name in named)
        return not named or is_of_torch or not self._gathered.operators().isdisjoint(named)

    def _owns(self, source: Source, name: str) -> bool:
        """Whether a name was taken from a file, and is no import."""
        found = source.defined.get(name)
        return found is not None and self._gathered.names.get(name) == source.meaning(found)

    def _acts(
        self,
        source: Source,
        node: ast.AST,
        within: ast.AST,
        seen: set[int] | None = None,
        *,
        is_any: bool = False,
    ) -> bool:
        """Whether code changes PyTorch, perhaps by functions of the team that it calls.

        Args:
            source: The file that has it.
            node: The code.
            within: The function that has it, which may import what it names.
            seen: The functions that were looked at.
            is_any: Whether operators count that were not taken, too.
        """
        inside = modules_of(imports_in(within), "")
        modules, seen = _imports_of(source) | inside, seen if seen is not None else set()
        for each in ast.walk(node):
            decorators = each.decorator_list if isinstance(each, ast.FunctionDef) else []
            targets = each.targets if isinstance(each, ast.Assign) else []
            targets = [each.target] if isinstance(each, ast.AugAssign) else targets
            if any(
                isinstance(one, (ast.Attribute, ast.Subscript))
                and _is_of_torch(dotted(_of_items(one), modules))
                and (is_any or self._is_due(one))
                for one in targets
            ):
                return True
            called = [each.func] if isinstance(each, ast.Call) else []
            called += [one for one in decorators if not isinstance(one, ast.Call)]
            for one in called:
                is_registration = _is_registration(dotted(one, modules))
                if is_registration and (is_any or self._is_due(each)):
                    return True
                found = resolved(source, one, inside)
                if found is None or id(found[1]) in seen:
                    continue
                seen.add(id(found[1]))
                is_code = isinstance(found[1], (ast.FunctionDef, ast.ClassDef))
                if is_code and self._acts(*found, found[1], seen, is_any=is_any):
                    return True
        return False


def _imports_of(source: Source) -> dict[str, str]:
    return modules_of(source.body, source.package)


def _is_torch(source: Source, node: ast.expr) -> bool:
    """Whether an expression is an attribute of PyTorch: an option of the compiler."""
    return isinstance(node, ast.Attribute) and _is_of_torch(dotted(node, _imports_of(source)))


def _is_of_torch(path: str) -> bool:
    return path.startswith("torch.")


def _is_registration(path: str, places: tuple[str, ...] = (*_COMPILERS, "torch.library")) -> bool:
    """Whether a function registers something with the compiler, or defines an operator."""
    name = path.rpartition(".")[2]
    return path.startswith(places) and ("library" in path or name.startswith("register"))


def _of_items(node: ast.expr) -> ast.expr:
    """Return the dictionary of an item."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node
