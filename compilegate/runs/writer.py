"""The one writer of run files: a record is on disk when :meth:`Writer.write` returns.

A new file is created exclusively, and no symbolic link is followed. Its lock keeps every other
session away while it is written.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from compilegate.records.checksum import seal
from compilegate.records.run import Record, encode
from compilegate.runs import hidden_folders, lock
from compilegate.runs.reader import RunError

#: Bytes that the disk must have room for when a file is opened: the records of several cases.
ROOM = 2**18

#: What to do about the most common errors of an operating system.
_WAYS = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room in your quota",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EACCES: "make it writable",
    errno.EPERM: "make it writable",
    errno.EROFS: "make it writable",
    errno.EEXIST: "move away the file that has the folder's path",
    errno.ENOTDIR: "move away the file that has a folder's path",
    errno.ENAMETOOLONG: "choose a shorter name",
}

_GONE = "the file was removed or moved while it was written"


class Writer:
    """Writes a run file, a record at a time. :meth:`create` and :meth:`resume` open it.

    Args:
        path: The file.
        descriptor: The open file.
        made: Folders that were made for a new file, the innermost first; None for a file that is
            resumed.

    Attributes:
        path: The file.
        trouble: Why writing stopped; empty while it works. What was written before stays.
        is_locked: Whether the lock keeps other sessions away; some file systems have no locks.

    Raises:
        HeldError: Another process writes the file.
    """

    def __init__(self, path: Path, descriptor: int, made: Sequence[Path] | None) -> None:
        self.path = path
        self.trouble = ""
        self.is_locked = lock.take(descriptor)
        self._descriptor = descriptor
        self._identity = os.fstat(descriptor)
        self._made = made or ()
        self._is_empty = made is not None
        #: Bytes of the complete records; None for a resumed file, whose last line may be cut short.
        self._size = 0 if made is not None else None
        self._is_open = True

    @classmethod
    def create(cls, path: Path, elsewhere: str = "choose another folder") -> Self:
        """Create a run file and lock it. It is empty until the first record is written.

        Args:
            path: The file.
            elsewhere: How the user names another place.

        Raises:
            RunError: The file exists, or its folder is full or cannot be written to.
        """
        made: list[Path] = []
        try:
            made += [folder for folder in path.parents if not folder.exists()]
            path.parent.mkdir(parents=True, exist_ok=True)
            _require_room(path.parent)
            descriptor = _open(path, os.O_CREAT | os.O_EXCL)
        except OSError as error:
            _remove_folders(made)
            if isinstance(error, FileExistsError) and path.parent.is_dir():
                raise RunError(f"{path} {taken(path)}") from error
            raise RunError(
                f"cannot write run files to {path.parent}: {_reason(error)}, or {elsewhere}"
            ) from error
        return cls._locked(path, descriptor, made)

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Open a run file to continue it, and lock it. Only :meth:`write` changes it.

        Raises:
            RunError: Another process writes it, or it cannot be written to.
        """
        try:
            descriptor = _open(path)
        except OSError as error:
            link = "it is a symbolic link; name the file that it leads to"
            why = link if path.is_symlink() else _reason(error)
            raise RunError(f"cannot resume {path}: {why}") from error
        writer = cls._locked(path, descriptor, None)
        try:
            with contextlib.suppress(PermissionError):  # the folder's: the file can be written to
                _require_room(path.parent)
        except OSError as error:
            writer.close()
            raise RunError(f"cannot resume {path}: {_reason(error)}") from error
        return writer

    @classmethod
    def _locked(cls, path: Path, descriptor: int, made: Sequence[Path] | None) -> Self:
        try:
            return cls(path, descriptor, made)
        except lock.HeldError as error:
            os.close(descriptor)
            raise RunError(f"cannot write {path}: {_being_written(path)}") from error

    @property
    def holds_records(self) -> bool:
        """Whether the file is at its path and begins with a header, so that it can be read."""
        return not self._is_empty and self._is_there() and self.path.stat().st_size > 0

    def write(self, record: Record | str) -> bool:
        """Append one record, or its line, and flush it to disk. The first error ends all writing.

        Returns:
            Whether the file holds the record.
        """
        if self.trouble:
            return False
        line = seal(record if isinstance(record, str) else encode(record))
        if self._is_empty:
            hidden_folders.ignore(self._made)
        try:
            self._append(f"{line}\n".encode())
        except OSError as error:
            self.trouble = f"{self.path}: {error.strerror}"
        return not self.trouble

    def close(self) -> None:
        """Close the file, which ends its lock. A new file without a record is removed."""
        if not self._is_open:
            return
        self._is_open = False
        if not self._is_empty and not self._is_there():
            self.trouble = self.trouble or f"{self.path}: {_GONE}"
        elif self._is_empty and self._is_there():
            with contextlib.suppress(OSError):
                self.path.unlink()
            _remove_folders(self._made)
        with contextlib.suppress(OSError):  # a disk that was full still is
            os.close(self._descriptor)

    def _append(self, data: bytes) -> None:
        if self._size is None:
            self._size = _end_of_records(self.path)
            os.ftruncate(self._descriptor, self._size)
        before = self._size
        if os.fstat(self._descriptor).st_size != before:
            raise OSError(errno.EIO, "another program changed the file while it was written")
        try:
            _write(self._descriptor, data)
            os.fsync(self._descriptor)
            self._size = before + len(data)
        except BaseException:  # Ctrl-C, too
            self._size = before
            # Where this fails, a part of the line stays, and readers leave it out.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, before)
            raise
        if not self._is_there():
            raise OSError(errno.ENOENT, _GONE)
        self._is_empty = False

    def _is_there(self) -> bool:
        """Whether the file is still at its path."""
        try:
            return os.path.samestat(self._identity, self.path.lstat())
        except OSError:
            return False


def taken(path: Path) -> str:
    """Return why a new run cannot have the name of a file, and what to do."""
    if lock.holder(path) is not None:
        return f"exists, and {_being_written(path)}, or choose another name"
    if path.is_symlink():
        return "is a symbolic link; choose another name, or remove it"
    if path.is_file() and not path.stat().st_size:
        return "exists and is empty; choose another name, or remove it"
    return "exists; choose another name"


def _being_written(path: Path) -> str:
    pid = lock.holder(path)
    who = f"process {pid}" if pid is not None else "a process of another machine or container"
    return f"{who} is writing it; wait until it ends"


def _open(path: Path, flags: int = 0) -> int:
    flags |= os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, mode=0o666)


def _write(descriptor: int, data: bytes) -> None:
    """Write all bytes: a single call writes as many as there is room for."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _require_room(folder: Path) -> None:
    """Write as much as the first records need: permissions alone do not show a full disk.

    Raises:
        OSError: The folder is full or cannot be written to.
    """
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        _write(file.fileno(), os.urandom(ROOM))  # no file system compresses random bytes
        os.fsync(file.fileno())


def _end_of_records(path: Path) -> int:
    """Return the bytes up to the end of the last complete line."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.rfind(b"\n") + 1


def _reason(error: OSError) -> str:
    return f"{error.strerror}; {_WAYS.get(error.errno or 0, 'check the disk')}"


def _remove_folders(made: Sequence[Path]) -> None:
    """Remove folders that hold nothing of value, as far as possible."""
    for folder in made:
        with contextlib.suppress(OSError):
            hidden_folders.forget(folder)
            folder.rmdir()
