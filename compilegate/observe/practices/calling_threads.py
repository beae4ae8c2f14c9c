"""Threads that call a model at once, as those of a server do. A deadlock among them is an error."""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, TypeVar

from compilegate.observe.measure.contention import tree_s

#: A thread is stuck once no thread ended its work and nothing ran for this many seconds: no other
#: thread of this process, and no compiler that it started.
STUCK_S = 60.0
#: Seconds between two readings of the processor time, and the share of them that counts as work.
_READING_S, _WORKING_SHARE = 1.0, 0.02

Made = TypeVar("Made")
_Task = Callable[[], None]


class StuckThreadsError(RuntimeError):
    """Threads wait for what never comes. The notes of the error are their stacks."""


class CallingThreads:
    """A fixed number of threads that do their work at once, again and again.

    Each is a new thread to PyTorch: it starts with gradients enabled and without autocast. They are
    daemons, because a thread that is stuck must not keep the process from ending.

    Args:
        count: How many threads there are.
        beat: Called once a second while threads end their work, to show progress.

    Attributes:
        count: How many threads there are.
        are_stuck: Whether a thread was found stuck. Nothing more can be done with the threads.
    """

    def __init__(self, count: int, beat: Callable[[], None] = lambda: None) -> None:
        self.count = count
        self.are_stuck = False
        self._beat = beat
        self._tasks: list[queue.SimpleQueue[_Task | None]] = []
        self._threads: list[threading.Thread] = []
        for number in range(1, count + 1):
            tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
            name = f"calling thread {number}"
            thread = threading.Thread(target=_work_off, args=(tasks,), name=name, daemon=True)
            self._tasks.append(tasks)
            self._threads.append(thread)
            thread.start()

    def run(self, work: Callable[[int], Made], *, threads: int | None = None) -> list[Made]:
        """Let threads do their work at once. Return what each returned.

        Args:
            work: What a thread does, given its number from 0.
            threads: How many of the threads work; all of them by default.

        Raises:
            StuckThreadsError: Threads do not end, and nothing runs.
            Exception: What the work of the first thread that failed raised.
        """
        count = self.count if threads is None else threads
        start = threading.Barrier(count)

        def task(number: int, made: futures.Future[Made]) -> None:
            try:
                start.wait()
                made.set_result(work(number))
            except BaseException as error:
                made.set_exception(error)

        results: list[futures.Future[Made]] = [futures.Future() for _ in range(count)]
        for number, made in enumerate(results):
            self._tasks[number].put(functools.partial(task, number, made))
        self._wait(results)
        return [made.result() for made in results]

    def close(self) -> None:
        """Let the threads end. One that is stuck remains."""
        for tasks in self._tasks:
            tasks.put(None)
        if not self.are_stuck:
            for thread in self._threads:
                thread.join()

    def _wait(self, results: list[futures.Future[Any]]) -> None:
        """Wait until each thread has done its work."""
        idle_s, known = 0.0, (_worked_s(), 0)
        while True:
            done, waiting = futures.wait(results, _READING_S)
            if not waiting:
                return
            now = (_worked_s(), len(done))
            if now[1] > known[1]:
                self._beat()
            works = now[1] > known[1] or now[0] - known[0] > _WORKING_SHARE * _READING_S
            idle_s, known = 0.0 if works else idle_s + _READING_S, now
            if idle_s >= STUCK_S:
                self.are_stuck = True
                raise self._stuck([number for number, one in enumerate(results) if one in waiting])

    def _stuck(self, numbers: list[int]) -> StuckThreadsError:
        stuck = ", ".join(str(number + 1) for number in numbers)
        error = StuckThreadsError(
            f"thread {stuck} of {self.count} did not end: nothing ran for {STUCK_S:g} s"
        )
        frames = sys._current_frames()
        names = {self._threads[number].name: self._threads[number].ident for number in numbers}
        stacks = {name: traceback.extract_stack(frames[i]) for name, i in names.items() if i}
        for name, stack in stacks.items():  # a report may have room for the first lines alone
            *_, last = stack
            error.add_note(f"{name} waits in {last.filename}:{last.lineno}: {last.line}")
        for name, stack in stacks.items():
            error.add_note(f"The stack of {name}:\n{''.join(stack.format())}")
        return error


def _worked_s() -> float:
    """Return the processor seconds of this process and its children, without this thread's."""
    return tree_s(os.getpid()) - time.thread_time()


def _work_off(tasks: queue.SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        task()


@contextlib.contextmanager
def calling(count: int, beat: Callable[[], None]) -> Iterator[CallingThreads]:
    """Start threads, and let them end with the ``with`` block."""
    threads = CallingThreads(count, beat)
    try:
        yield threads
    finally:
        threads.close()
