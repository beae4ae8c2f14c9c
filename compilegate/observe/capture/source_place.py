"""Names lines of source so that they read the same on every machine."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import site
import sysconfig
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

from compilegate.records.observation import Place

_FIXTURES = Path(__file__).parents[2] / "fixtures"
#: Recipes of the shipped zoo go by their name alone, in a checkout and in an installed package.
_RECIPES = (_FIXTURES, _FIXTURES.resolve())
#: The files of this package, which call the model.
_OWN = str(Path(__file__).parents[2])
_STANDARD_LIBRARY = Path(sysconfig.get_paths()["stdlib"])
#: The folders that the user's own files are named from.
_roots: list[Path] = []


def name_from(root: str, zoo: Iterable[str]) -> None:
    """Set the folders that the user's files are named from: the first that holds a file.

    Args:
        root: The root of the user's project; empty if it is unknown.
        zoo: The user's zoo files, whose folders come next. The current folder comes last.
    """
    folders = [*([root] if root else []), *(os.path.dirname(file) for file in zoo), os.getcwd()]
    written = [Path(os.path.abspath(folder)) for folder in folders]
    _roots[:] = dict.fromkeys(path for root in written for path in (root, root.resolve()))


def roots() -> Sequence[Path]:
    """Return the folders that the user's files are named from."""
    return _roots


def place(filename: str, line: int, function: str) -> Place:
    """Return a source line. Its file is relative to its package, or to the user's project."""
    file, owner = _named(Path(filename))
    return Place(file=file, line=line, function=function, owner=owner)


def of_error(error: BaseException | None) -> Place | None:
    """Return the innermost line of the model that an error was raised from, if it has one."""
    frames = traceback.extract_tb(error.__traceback__ if error else None)
    places = [
        place(frame.filename, frame.lineno or 0, frame.name)
        for frame in frames
        if Path(frame.filename).parent in _RECIPES or not frame.filename.startswith(_OWN)
    ]
    return next((found for found in reversed(places) if found.owner == "model"), None)


def _named(path: Path) -> tuple[str, str]:
    """Return the name of a file, and whose code it is."""
    if path.parent in _RECIPES:
        return path.name, "model"
    for packages in _packages():
        with contextlib.suppress(ValueError):
            local = path.relative_to(packages)
            return local.as_posix(), local.parts[0]
    with contextlib.suppress(ValueError):
        return path.relative_to(_STANDARD_LIBRARY).as_posix(), "python"
    for root in _roots:
        with contextlib.suppress(ValueError):
            return path.relative_to(root).as_posix(), "model"
    return path.name, "model"


@functools.cache
def _packages() -> Sequence[Path]:
    """Return the folders of installed packages, also that of a torch which a path file lends."""
    torch = importlib.util.find_spec("torch")
    lent = [Path(torch.origin).parents[1]] if torch is not None and torch.origin else []
    paths = (*site.getsitepackages(), sysconfig.get_paths()["purelib"])
    return tuple(dict.fromkeys([*map(Path, paths), *lent]))
