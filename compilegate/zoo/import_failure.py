"""Describe in one sentence why a zoo file cannot be imported, with the user's own line."""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path

#: How zoo files imported their names before the package existed.
_OLD_IMPORT = re.compile(r"\bfixtures(\.zoo\b|\s+import\s+zoo\b)")
_OLD_MODULES = ("fixtures", "fixtures.zoo")
_PACKAGE = str(Path(__file__).parents[1])
#: Folders of code that is not the user's: Python, installed packages, compilegate.
_FOREIGN = (
    *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
    _PACKAGE,
)


def describe(path: Path, error: BaseException) -> str:
    """Return the sentence that explains an error which importing a zoo file raised.

    Args:
        path: The zoo file, as an absolute path.
        error: What the import raised.
    """
    file, line = _place(path, error)
    place = f"{_short(file, path)}:{line}"
    failure = f"cannot import the zoo file {path.name}"
    if _is_old_import(error, linecache.getline(str(file), line)):
        return (
            f"{failure}: {place} imports fixtures.zoo, which does not exist; "
            "write: from compilegate import Call, Example, model"
        )
    if isinstance(error, SyntaxError):
        message = error.msg
    else:
        message, *_ = str(error).strip().splitlines() or [""]
    reason = f"{type(error).__name__}: {message}".removesuffix(": ")
    way_out = way_out_of(error, [Path.cwd(), *path.parents[:3]])
    return f"{failure}: {reason} at {place}{way_out}"


def way_out_of(error: BaseException, folders: Iterable[Path]) -> str:
    """Return how to import the user's own package, if an import did not find it.

    Args:
        error: The error.
        folders: Where the package may be, or in a folder ``src`` there.
    """
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return ""
    name, *inner = error.name.split(".")
    for folder in () if inner else (each / sub for each in folders for sub in ("", "src")):
        if (folder / name / "__init__.py").is_file() or (folder / f"{name}.py").is_file():
            return (
                f"; it is in {folder}: pip install -e it, or name that folder in pytest's setting "
                "pythonpath"
            )
    return ""


def _is_old_import(error: BaseException, source: str) -> bool:
    is_missing = isinstance(error, ImportError) and error.name in _OLD_MODULES
    return is_missing and _OLD_IMPORT.search(source) is not None


def _place(path: Path, error: BaseException) -> tuple[Path, int]:
    """Return the user's own last file and line on the way to the error."""
    if isinstance(error, SyntaxError) and error.filename and _is_users(error.filename, path):
        return Path(error.filename), error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_users(frame.filename, path)]
    return (Path(own[-1].filename), own[-1].lineno or 1) if own else (path, 1)


def _is_users(file: str, path: Path) -> bool:
    """Whether a file is the zoo file or other code of the user."""
    if file == str(path):
        return True
    return not file.startswith("<") and not any(
        Path(file).is_relative_to(folder) for folder in _FOREIGN if folder
    )


def _short(file: Path, path: Path) -> str:
    """Return a path relative to the zoo file's folder; the absolute path if it lies elsewhere."""
    return str(file.relative_to(path.parent) if file.is_relative_to(path.parent) else file)
