"""Applies a function to many cases in forked processes, since decoding a large run is slow."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

#: The fewest cases for which starting processes pays off.
MANY = 2000
#: The most processes; reading the file limits the gain of more.
MOST = 4

Result = TypeVar("Result")
_work: Callable[[str], Any] | None = None


def over(
    cases: Sequence[str], work: Callable[[str], Result], workers: int | None = None
) -> list[Result]:
    """Return the results of a function, in the order of the cases.

    Args:
        cases: Their ids.
        work: The function. It may refer to objects that cannot be pickled, since processes are
            forked; its result must be picklable.
        workers: The number of processes; by default the number of usable processors.

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
