"""The source of a model's recipe, with all that it needs of its file: a script has no zoo."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from compilegate.records.part import Arguments, Construction
from compilegate.triage.source.acting import set_up_in
from compilegate.triage.source.definitions import Gathered, NoSourceError, Source, Way
from compilegate.triage.source.effects import Effects
from compilegate.triage.source.syntax import text_of, uses
from compilegate.zoo.builder import Builder

#: Of a recipe that no process has listed.
_UNKNOWN = Builder()
#: The ways to take source, from the most to the least that a script has of its own.
_WAYS: tuple[Way, ...] = get_args(Way)


class Recipe(NamedTuple):
    """The source of a recipe.

    Attributes:
        lines: The lines that define it as the function ``recipe``, and what it needs.
        modules: The modules of the team that they import, since their source is long or entangled.
        paths: The folders in which those are found.
    """

    lines: list[str]
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


def recipe_of(
    file: Path,
    model: str,
    device: str,
    *,
    builder: Builder = _UNKNOWN,
    copies: bool = True,
) -> Recipe:
    """Return the source of a model's recipe.

    Args:
        file: The file that defines it.
        model: Its name.
        device: The device that it is given, if it takes one.
        builder: Where it is defined, if that is known: a loop may define many recipes.
        copies: Whether to copy what modules of the team define. Else all of it is imported.

    Raises:
        NoSourceError: No function of the file is decorated with this name, or it needs compilegate.
    """

    def take(source: Source, gathered: Gathered) -> Iterator[str]:
        found = _found(source, file, model, device, builder)
        found.name, found.decorator_list = "recipe", []
        yield from source.needed(found)
        yield from Effects(gathered).lines()
        yield text_of(found)

    return _first_way(file, take, _WAYS if copies else _WAYS[-1:])


def recipes_of(file: Path, model: str, device: str, builder: Builder = _UNKNOWN) -> list[Recipe]:
    """Return a model's recipe with the source of the team's modules, then with imports of them.

    Args:
        file: The file that defines it.
        model: Its name.
        device: The device that it is given, if it takes one.
        builder: Where it is defined, if that is known.

    Raises:
        NoSourceError: There is neither.
    """
    copied = recipe_of(file, model, device, builder=builder)
    imported = recipe_of(file, model, device, builder=builder, copies=False)
    return [copied, imported] if imported.lines != copied.lines else [copied]


def recipe_of_part(file: Path, made: Construction) -> Recipe:
    """Return a recipe that makes one submodule of a model, without the rest of it.

    Args:
        file: The zoo file of the model.
        made: How the submodule is made and called.

    Raises:
        NoSourceError: Its class needs compilegate, or cannot be taken out of its file.
    """
    code = ast.unparse(ast.parse(_part_text(made, is_imported=Path(made.file) != file)))

    def take(source: Source, gathered: Gathered) -> Iterator[str]:
        found = ast.parse(code).body[0]
        yield from source.needed(found)
        yield from Effects(gathered).lines()
        yield text_of(found)

    return _first_way(file, take, _WAYS)


def _part_text(made: Construction, *, is_imported: bool) -> str:
    """Return the text of the recipe of a submodule.

    Args:
        made: How it is made and called.
        is_imported: Whether another module than the zoo file defines its class.
    """

    def args(call: Arguments) -> str:
        return f"({''.join(f'{value}, ' for value in call.args)})"

    def kwargs(call: Arguments, before: str = "") -> str:
        named = ", ".join(f"{name!r}: {value}" for name, value in call.kwargs.items())
        return f", kwargs={before}{{{named}}}" if named else ""

    imported = f"    from {made.module} import {made.name}\n" if is_imported else ""
    first, *later = made.calls
    calls = ", ".join(f"dict(args={args(call)}{kwargs(call)})" for call in made.calls)
    once = f"inputs=lambda: {args(first)}{kwargs(first, 'lambda: ')}"
    given = f"calls=[{calls}]" if later else once
    return (
        f"def recipe():\n{imported}    return dict(module={made.name}({made.given.text}), {given})"
    )


def operators_of(
    file: Path, code: str, model: str, device: str, builder: Builder = _UNKNOWN
) -> Recipe:
    """Return what :func:`operators_in` does, without the recipe where that has no source.

    Args:
        file: The zoo file.
        code: The code.
        model: The model that the code is from.
        device: The device that its recipe is given.
        builder: Where the recipe is defined, if that is known.

    Raises:
        NoSourceError: The file cannot be read.
    """
    try:
        return operators_in(file, code, model, device, builder)
    except NoSourceError:
        return operators_in(file, code)


def operators_in(
    file: Path, code: str, model: str = "", device: str = "", builder: Builder = _UNKNOWN
) -> Recipe:
    """Return the source of the operators that code calls, which a zoo file or its modules define.

    What these and the recipe do to PyTorch comes along: lowerings, decompositions, passes.

    Args:
        file: The zoo file.
        code: The code, in which they are ``torch.ops.my.op``.
        model: The model that the code is from; empty for none.
        device: The device that its recipe is given.
        builder: Where the recipe is defined, if that is known.

    Raises:
        NoSourceError: The file cannot be read.
    """

    def take(source: Source, gathered: Gathered) -> Iterator[str]:
        gathered.taken.append(ast.parse(code))
        effects = Effects(gathered)
        made = None
        if model:
            found = _found(source, file, model, device, builder)
            effects.note_imports(found)
            made = set_up_in(source, found)
        if made is not None:
            yield from source.needed(made)
        yield from effects.lines()
        if made is not None:
            gathered.bind(made.name, "what the recipe sets up")
            yield f"{text_of(made)}\n{made.name}()"

    return _first_way(file, take, _WAYS)


def _found(
    source: Source, file: Path, model: str, device: str, builder: Builder
) -> ast.FunctionDef:
    """Return the recipe of a model, which needs no arguments."""
    found = next((node for node in source.functions() if _is_named(node, model)), None)
    if found is None:
        found = next(
            (node for node in _functions(source) if _begins_at(node) == builder.line), None
        )
    if found is None:
        raise NoSourceError(f"no function in {file.name} is decorated with the name {model!r}")
    known = {"device": repr(device), **builder.bound}
    arguments = [*found.args.posonlyargs, *found.args.args]
    names = [argument.arg for argument in (*arguments, *found.args.kwonlyargs)]
    inside = {name for node in found.body for name in uses(node)}
    around = [name for name in builder.bound if name in inside and name not in names]
    if missing := [name for name in (*names, *around) if not known.get(name)]:
        raise NoSourceError(f"the recipe takes {missing[0]}, which has no source")
    values = {name: ast.parse(known[name], mode="eval").body for name in (*names, *around)}
    found.args.defaults = [values[argument.arg] for argument in arguments]
    found.args.kw_defaults = [values[argument.arg] for argument in found.args.kwonlyargs]
    assigned = [ast.Assign([ast.Name(name)], values[name], lineno=0) for name in around]
    found.body = [*assigned, *found.body]
    return found


def _functions(source: Source) -> Iterator[ast.FunctionDef]:
    """Yield all functions of a file, also those inside of functions and loops."""
    for node in (inner for statement in source.body for inner in ast.walk(statement)):
        if isinstance(node, ast.FunctionDef):
            yield node


def _begins_at(node: ast.FunctionDef) -> int:
    """Return the first line of a function, with its decorators."""
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _first_way(
    file: Path, take: Callable[[Source, Gathered], Iterable[str]], ways: Sequence[Way]
) -> Recipe:
    """Take source in the first way in which the script does nothing twice."""
    for way in ways:
        gathered = Gathered(file.parent, way)
        try:
            texts = [*take(Source(file, gathered), gathered)]
        except NoSourceError:
            if way == ways[-1]:
                raise
        else:
            # Imported code may use operators that nobody sees here: their effects are imported.
            if way != "copies" or not gathered.modules:
                break
    return _gathered(texts, gathered)


def _gathered(texts: list[str], gathered: Gathered) -> Recipe:
    paths = dict.fromkeys(str(path) for path in gathered.modules.values())
    lines = "\n".join(texts).splitlines()
    return Recipe(lines, (*gathered.modules,), (*paths,))


def _is_named(node: ast.FunctionDef, model: str) -> bool:
    calls = (each for each in node.decorator_list if isinstance(each, ast.Call) and each.args)
    return any(isinstance(a := c.args[0], ast.Constant) and a.value == model for c in calls)
