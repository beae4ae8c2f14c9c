"""The source of a model's recipe, with all that it needs of its file: a script has no zoo."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

from compilegate.triage.source import Gathered, NoSourceError, Source
from compilegate.triage.syntax import text_of


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


def recipe_of(file: Path, model: str, device: str) -> Recipe:
    """Return the source of a model's recipe.

    Args:
        file: The file that defines it.
        model: Its name.
        device: The device that it is given, if it takes one.

    Raises:
        NoSourceError: No function of the file is decorated with this name, or it needs compilegate.
    """
    gathered = Gathered(file.parent)
    source = Source(file, gathered)
    found = next((node for node in source.functions() if _is_named(node, model)), None)
    if found is None:
        raise NoSourceError(f"no function in {file.name} is decorated with the name {model!r}")
    if [argument.arg for argument in found.args.args] == ["device"]:
        found.args.defaults = [ast.Constant(device)]
    elif found.args.args:
        raise NoSourceError("the recipe takes arguments")
    found.name, found.decorator_list = "recipe", []
    needed = [*source.needed(found), *gathered.effects()]
    return _gathered([*needed, text_of(found)], gathered)


def operators_in(file: Path, code: str) -> Recipe:
    """Return the source of the operators that code calls, which a zoo file or its modules define.

    Args:
        file: The zoo file.
        code: The code, in which they are ``torch.ops.my.op``.

    Raises:
        NoSourceError: The file cannot be read.
    """
    gathered = Gathered(file.parent)
    Source(file, gathered)
    gathered.taken.append(ast.parse(code))
    return _gathered([*gathered.effects()], gathered)


def _gathered(texts: list[str], gathered: Gathered) -> Recipe:
    paths = dict.fromkeys(str(path) for path in gathered.modules.values())
    lines = "\n".join(texts).splitlines()
    return Recipe(lines, (*gathered.modules,), (*paths,))


def _is_named(node: ast.FunctionDef, model: str) -> bool:
    calls = (each for each in node.decorator_list if isinstance(each, ast.Call) and each.args)
    return any(isinstance(a := c.args[0], ast.Constant) and a.value == model for c in calls)
