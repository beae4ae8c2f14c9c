"""Modules that only a team has: no index of packages does, so scripts cannot import them.

Nothing is imported to find out.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import sysconfig
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

#: What a maintainer has, wherever it is installed: perhaps as a checkout.
_PUBLIC = {
    *("accelerate", "diffusers", "huggingface_hub", "numpy", "safetensors", "timm", "tokenizers"),
    *("torch", "torchao", "torchaudio", "torchvision", "transformers", "triton"),
    *sys.stdlib_module_names,
}
#: Folders of installed distributions.
_INSTALLED = {"site-packages", "dist-packages"}
#: How many folders above that of a zoo file may have modules of the team.
_ABOVE = 3
#: What a folder holds that changes the interpreter itself.
_OF_INTERPRETER = ("sitecustomize.py", "usercustomize.py", "torch")


def is_of_team(module: str, folder: Path) -> bool:
    """Whether a module is neither of Python nor of an installed distribution.

    Args:
        module: Its name, with dots.
        folder: The folder of the file that imports it.
    """
    root = module.partition(".")[0]
    if root in _PUBLIC or root == "compilegate":
        return False
    spec = _root(root, folder)
    at = _location(spec) if spec is not None else None
    return at is not None and not _is_installed(at)


def file_of(module: str, folder: Path) -> Path | None:
    """Return the source of a module of the team; None if there is none.

    Args:
        module: Its name, with dots.
        folder: The folder of the file that imports it.
    """
    root, *rest = module.split(".")
    spec = _root(root, folder)
    for count, _ in enumerate(rest, 2):
        places = spec.submodule_search_locations if spec is not None else None
        if places is None:
            return None
        spec = PathFinder.find_spec(".".join((root, *rest)[:count]), [*places])
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    return origin if origin is not None and origin.suffix == ".py" else None


def path_of(module: str, folder: Path) -> Path | None:
    """Return the folder that must be on ``PYTHONPATH`` for a module to be found."""
    spec = _root(module.partition(".")[0], folder)
    at = _location(spec) if spec is not None else None
    return at.parent if at is not None else None


def root_of(module: str, folder: Path) -> Path | None:
    """Return the folder of the package that a module is in; None if it is in none."""
    spec = _root(module.partition(".")[0], folder)
    is_package = spec is not None and bool(spec.submodule_search_locations)
    return _location(spec) if spec is not None and is_package else None


def interpreters_own(path: str) -> str:
    """Return the folders of a ``PYTHONPATH`` that change the interpreter, and no more.

    Those have torch, other installed distributions, or a ``sitecustomize``. The others hold the
    modules of a team.
    """
    folders = filter(None, path.split(os.pathsep))
    return os.pathsep.join(folder for folder in folders if _changes(Path(folder)))


def _changes(folder: Path) -> bool:
    held = any((folder / name).exists() for name in _OF_INTERPRETER)
    return held or next(folder.glob("*.dist-info"), None) is not None


@functools.cache
def _root(name: str, folder: Path) -> ModuleSpec | None:
    """Find a top-level module as the observing child does: the zoo's folder comes last.

    Zoo files that add a folder to ``sys.path`` mostly add one that they are in.
    """
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        spec = PathFinder.find_spec(name, [str(folder)])
    for above in folder.parents[:_ABOVE]:
        found = PathFinder.find_spec(name, [str(above)]) if spec is None else None
        # A folder without a file may be anything, also one of data.
        spec = found if found is not None and found.origin else spec
    return spec


def _location(spec: ModuleSpec) -> Path | None:
    """Return the file of a module, or the folder of a package."""
    for place in spec.submodule_search_locations or ():
        return Path(place).resolve()
    return Path(spec.origin).resolve() if spec.origin and Path(spec.origin).exists() else None


def _is_installed(at: Path) -> bool:
    is_python = at.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve())
    is_installed = bool(_INSTALLED.intersection(at.parts))
    return is_python or is_installed or next(at.parent.glob("*.dist-info"), None) is not None
