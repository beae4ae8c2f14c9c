"""A file for a child's output that needs no folder: a child may fill or delete any folder."""

from __future__ import annotations

import os
import tempfile
from typing import BinaryIO, cast


def memory_file(name: str) -> BinaryIO:
    """Return an empty file without a path. Its content is memory of whoever writes it.

    Where Python was built without ``memfd_create``, it is a temporary file on disk.

    Args:
        name: Its name in ``/proc/PID/fd``.

    Raises:
        OSError: Too many files are open, or there is no memory.
    """
    if hasattr(os, "memfd_create"):
        return cast("BinaryIO", os.fdopen(os.memfd_create(name), "w+b", buffering=0))
    return cast("BinaryIO", tempfile.TemporaryFile(prefix=f"{name}-", buffering=0))
