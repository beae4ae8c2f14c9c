"""The processes of a case: a child and all that it starts, as the kernel accounts for them.

``/proc/PID/task/TID/schedstat`` holds, in nanoseconds, the processor time of a thread and the time
that it was ready to run and waited for a processor (https://docs.kernel.org/scheduler/sched-stats.html).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from compilegate.processes.case_clock import Work

#: A process is at work if it wanted a processor for this share of the time. Compile workers that
#: only wait for a task want much less: each looks once a second whether its parent lives.
_AT_WORK = 0.1
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class _Thread(NamedTuple):
    """Seconds of a thread since it started; ``waited_s`` is None where it is unknown."""

    ran_s: float
    waited_s: float | None


class ProcessTree:
    """Reads what a process and its descendants do.

    A process that starts and ends between two readings is not seen. Its parent is, while it waits.

    Args:
        pid: The process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: dict[int, _Thread] = {}
        self._processes = {pid}
        self._read_at = time.monotonic()
        self.work()

    def pids(self) -> list[int]:
        """Return the processes that live, the first one first."""
        return [pid for pid, threads in self._descend() if threads]

    def work(self) -> Work:
        """Return what the processes did since the last reading."""
        now = time.monotonic()
        elapsed_s, self._read_at = now - self._read_at, now
        ran_s = waited_s = 0.0
        is_measured = True
        helpers = []
        for pid, threads in self._descend():
            wanted_s = 0.0
            for tid, thread in threads.items():
                before = self._known.get(tid, _Thread(0.0, 0.0))
                if thread.ran_s < before.ran_s:  # another thread got its id
                    before = _Thread(0.0, 0.0)
                self._known[tid] = thread
                ran_s += thread.ran_s - before.ran_s
                wanted_s += thread.ran_s - before.ran_s
                if thread.waited_s is None:
                    is_measured = False
                else:
                    waited_s += thread.waited_s - (before.waited_s or 0.0)
                    wanted_s += thread.waited_s - (before.waited_s or 0.0)
            is_new = pid not in self._processes
            self._processes.add(pid)
            if pid != self._pid and (is_new or wanted_s >= _AT_WORK * elapsed_s):
                helpers.append(_name(pid))
        return Work(
            ran_s=ran_s,
            waited_s=waited_s if is_measured else None,
            cores=_cores(self._pid),
            helpers=tuple(filter(None, helpers)),
        )

    def _descend(self) -> Iterator[tuple[int, dict[int, _Thread]]]:
        """Yield each process that lives, and its threads by id."""
        left = [self._pid]
        while left:
            pid = left.pop()
            threads = {}
            with contextlib.suppress(OSError):  # it has ended since
                for tid in map(int, os.listdir(f"/proc/{pid}/task")):
                    folder = f"/proc/{pid}/task/{tid}"
                    with contextlib.suppress(OSError):
                        threads[tid] = _thread(folder)
                        left += map(int, _read(f"{folder}/children").split())
            yield pid, threads


def _thread(folder: str) -> _Thread:
    """Read the account of a thread.

    Raises:
        OSError: It has ended.
    """
    with contextlib.suppress(FileNotFoundError):
        ran_ns, waited_ns, _ = map(int, _read(f"{folder}/schedstat").split())
        if ran_ns:  # a kernel that does not count writes zeros
            return _Thread(ran_ns / 1e9, waited_ns / 1e9)
    # After the name, which may hold spaces: state, ppid, …; the 12th and 13th are user and system.
    fields = _read(f"{folder}/stat").rpartition(b")")[2].split()
    ran_s = (int(fields[11]) + int(fields[12])) * _TICK_S
    return _Thread(ran_s, None if ran_s else 0.0)


def _name(pid: int) -> str:
    """Return the name of a program; empty if it has ended."""
    with contextlib.suppress(OSError):
        return _read(f"/proc/{pid}/comm").decode(errors="replace").strip()
    return ""


def _cores(pid: int) -> float:
    """Return how many processors a process may use: its own, or the quota of its container."""
    try:
        cores: float = len(os.sched_getaffinity(pid))
    except OSError:  # it has ended
        cores = os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # "max": the container has no quota
        quota_us, period_us = map(int, _read("/sys/fs/cgroup/cpu.max").split())
        cores = min(cores, quota_us / period_us)
    return cores


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
