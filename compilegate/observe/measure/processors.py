"""The processors that the threads of this process run on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import torch

#: Those of the whole session: the fork server that imports this runs on all of them.
ALL = frozenset(os.sched_getaffinity(0))


def settle_threads() -> None:
    """Keep the number of threads that PyTorch has chosen for the whole machine.

    It chooses by the processors on which it first computes. Inductor writes the number into its
    code, so processes that this one starts must choose the same.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(threads)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))


def confine(processors: Iterable[int]) -> None:
    """Run all threads of this process on some processors, if that is allowed. New ones follow."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread has just ended, or a sandbox forbids it
            os.sched_setaffinity(int(thread.name), processors)
