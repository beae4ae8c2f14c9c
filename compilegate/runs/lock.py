"""The lock of a run file that is being written. It ends with its holder, however that ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from pathlib import Path

#: What a file system without locks answers.
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)

#: A line of ``/proc/locks``: the holder, the device in hexadecimal, the inode.
_LOCK = re.compile(r"\d+: \w+ +ADVISORY +WRITE (\d+) ([0-9a-f]+):([0-9a-f]+):(\d+) ")


class HeldError(OSError):
    """Another process holds the lock."""


def take(descriptor: int) -> bool:
    """Lock an open file for as long as it stays open.

    Returns:
        Whether it is locked: some network file systems have no locks.

    Raises:
        HeldError: Another process holds the lock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise HeldError(*error.args) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


def holder(path: Path) -> int | None:
    """Return the process that holds the lock of a file; None if this machine knows of none.

    https://man7.org/linux/man-pages/man5/proc_locks.5.html
    """
    try:
        file = path.stat()
        locks = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    found = [match for line in locks if (match := _LOCK.match(line))]
    for match in found:
        pid, major, minor, inode = (
            int(match[1]),
            int(match[2], 16),
            int(match[3], 16),
            int(match[4]),
        )
        if inode != file.st_ino:
            continue
        # Btrfs gives a file another device than the one in the list.
        if os.makedev(major, minor) == file.st_dev or _has_open(pid, file):
            return pid
    return None


def _has_open(pid: int, file: os.stat_result) -> bool:
    """Whether a process has a file open, as far as this user may see it."""
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):  # closed since
            if os.path.samestat(link.stat(), file):
                return True
    return False
