"""Folders that compilegate makes in a user's repository: Git leaves out those that are hidden."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

_FILE = ".gitignore"


def make(folder: Path) -> None:
    """Make a folder, with its parents, unless it is there.

    Raises:
        OSError: It cannot be made.
    """
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    ignore(made)


def ignore(made: Iterable[Path]) -> None:
    """Have Git leave out the folders whose name begins with a dot, as far as they can be written.

    Args:
        made: Folders that have just been made.
    """
    for folder in made:
        if folder.name.startswith("."):
            with contextlib.suppress(OSError):
                leave_out(folder)


def leave_out(folder: Path) -> None:
    """Have Git leave out a folder, whatever its name.

    Raises:
        OSError: It cannot be written to.
    """
    (folder / _FILE).write_text("*\n")


def forget(folder: Path) -> None:
    """Remove what :func:`ignore` has written.

    Raises:
        OSError: It cannot be removed.
    """
    (folder / _FILE).unlink(missing_ok=True)
