"""One function over many cases, in forked processes: decoding a large run is all computing."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

#: With fewer cases a process is not worth starting.
MANY = 2000
#: More processes gain little over reading the file.
MOST = 4

Result = TypeVar("Result")
_work: Callable[[str], Any] | None = None


def over(
    cases: Sequence[str], work: Callable[[str], Result], workers: int | None = None
) -> list[Result]:
    """The results, in the order of the cases.

    Args:
        cases: Their ids.
        work: What is done for each. It may hold what cannot be sent to another process, since
            processes are forked; its result must be sendable.
        workers: How many processes; as many as processors are free to use if it is not given.

    Raises:
        Exception: Whatever ``work`` raises.
    """
    if workers is None:
        workers = min(len(os.sched_getaffinity(0)), MOST) if len(cases) >= MANY else 1
    if workers <= 1:
        return [work(case) for case in cases]
    with multiprocessing.get_context("fork").Pool(workers, _begin, (work,)) as pool:
        return pool.map(_one, cases, chunksize=max(len(cases) // (8 * workers), 1))


def _begin(work: Callable[[str], Any]) -> None:
    global _work  # noqa: PLW0603 (a process of the pool has one task)
    _work = work


def _one(case: str) -> Any:
    assert _work is not None
    return _work(case)
