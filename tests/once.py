"""Makes in one of xdist's workers what the tests of all workers read."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")


def once(
    factory: pytest.TempPathFactory,
    name: str,
    make: Callable[[Path], object],
    read: Callable[[Path], T],
) -> T:
    """Make something in the first worker that asks, and read it in every other.

    Args:
        factory: pytest's, of the session.
        name: The name of the folder, which workers share.
        make: Fills the folder, which does not exist yet.
        read: Reads it.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            make(folder / "left")
            (folder / "made").touch()
    return read(folder / "left")
