"""The memory that the C library has given out: to tensors on the CPU, to C++ and to large objects.

Python's garbage collector knows no ``bytes`` and nothing that an extension allocates, and PyTorch's
profiler sees tensors alone.
https://man7.org/linux/man-pages/man3/mallinfo.3.html
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any


class _Info(ctypes.Structure):
    """``struct mallinfo2`` of the GNU C library."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def given_out() -> int:
    """Return the bytes in use; 0 if the C library does not count them.

    The count is that of the GNU C library, from 2.33 on. Another allocator that was loaded before
    it, such as jemalloc, is not seen.
    """
    info = _mallinfo2()
    if info is None:
        return 0
    seen = info()
    return int(seen.uordblks + seen.hblkhd)


@functools.cache
def _mallinfo2() -> Callable[[], Any] | None:
    try:
        function = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    function.restype = _Info
    return function
