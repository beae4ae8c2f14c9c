"""Opens a run file so that any part of it can be read; a compressed one is unpacked first."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

#: A compressed file may unpack to this many bytes, or to a multiple of its size. Run files shrink
#: to a fifth or a tenth of their size; a file of equal bytes shrinks to a thousandth.
FEWEST_UNPACKED_BYTES = 2**26
MOST_EXPANSION = 200

_BUFFER_BYTES = 2**20


class UnpackError(Exception):
    """A compressed file cannot be unpacked. The text says where and why."""


def open_content(path: Path) -> BinaryIO:
    """Open a run file for reading, without waiting for another process.

    Raises:
        OSError: It does not exist, cannot be read, or is no regular file.
        UnpackError: It is damaged, or unpacks to more than any run file of its size.
    """
    file = _open_regular(path)
    if path.suffix != ".gz":
        return file
    with file:
        content = cast("BinaryIO", tempfile.TemporaryFile(buffering=_BUFFER_BYTES))
        try:
            content.writelines(_unpacked(file))
        except BaseException:
            content.close()
            raise
        return content


def _open_regular(path: Path) -> BinaryIO:
    # Without O_NONBLOCK, a named pipe would make this wait for its writer.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "it is a folder, a pipe or a device, not a regular file")
        return open(number, "rb", buffering=_BUFFER_BYTES)
    except BaseException:
        os.close(number)
        raise


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a compressed file; where that was cut short, what comes before."""
    most = max(FEWEST_UNPACKED_BYTES, MOST_EXPANSION * os.fstat(file.fileno()).st_size)
    size, line = 0, 1
    try:
        with gzip.GzipFile(fileobj=file) as packed:
            while piece := packed.read1(_BUFFER_BYTES):
                size += len(piece)
                line += piece.count(b"\n")
                if size > most:
                    raise UnpackError(
                        f"it unpacks to more than {most} bytes, more than any run file of its size"
                    )
                yield piece
    except EOFError:
        return
    except (gzip.BadGzipFile, zlib.error) as error:
        raise UnpackError(f"{error}, in line {line} after {size} unpacked bytes") from error
