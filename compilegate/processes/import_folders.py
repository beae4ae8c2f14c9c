"""Folders that observing processes import a user's packages from, too: pytest's ``pythonpath``."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator

_VARIABLE = "PYTHONPATH"


@contextlib.contextmanager
def importable(folders: Iterable[str]) -> Iterator[None]:
    """Let this process, and those that it starts, import from folders in a ``with`` block.

    pytest adds the folders of its setting ``pythonpath`` to its own process alone. Those of the
    variable ``PYTHONPATH`` follow them.

    Args:
        folders: Absolute paths, the first of which is searched first.
    """
    given = os.environ.get(_VARIABLE)
    inherited = given.split(os.pathsep) if given else []
    added = [folder for folder in folders if folder not in inherited]
    own = [folder for folder in added if folder not in sys.path]
    sys.path[:0] = own
    if added:
        os.environ[_VARIABLE] = os.pathsep.join([*added, *inherited])
    try:
        yield
    finally:
        for folder in own:
            with contextlib.suppress(ValueError):
                sys.path.remove(folder)
        if added and given is None:
            del os.environ[_VARIABLE]
        elif added:
            os.environ[_VARIABLE] = given or ""
