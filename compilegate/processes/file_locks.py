"""Locks of files between the workers of a session. The kernel releases those of a dead process.

https://man7.org/linux/man-pages/man2/flock.2.html
"""

from __future__ import annotations

import fcntl
from io import FileIO
from pathlib import Path

#: A lock that several processes may hold at once, one that excludes all others, and none.
IN_COMMON, ALONE, NONE = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN


def opened(path: Path) -> FileIO:
    """Open a file to lock it, and make it if there is none."""
    return FileIO(path, "a+")


def lock(file: FileIO, kind: int) -> bool:
    """Change the lock of an open file without waiting; return whether that was possible.

    Where it was not, an earlier lock in common is lost.

    Raises:
        OSError: Files cannot be locked there, as on some network file systems.
    """
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def are_possible(folder: Path) -> bool:
    """Whether files of a folder can be locked: some network file systems have no locks."""
    try:
        with opened(folder / "lock") as file:
            return lock(file, ALONE)
    except OSError:
        return False
