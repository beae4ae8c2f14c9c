"""Stops the processes that fork servers have started, and lets them go on."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Stopped processes: the id of each, and a descriptor that no other process of this id shares.
Stopped = dict[int, int]

#: A process that waits in the kernel, for a disk or a driver, stops later. It is waited for this
#: long, in seconds.
_PATIENCE_S = 2.0
_PAUSE_S = 0.002
#: States in which a process does nothing: stopped, traced, ended (``man 5 proc``).
_STILL = "TtZX"


def stop(supervisors: Iterable[int]) -> Stopped:
    """Stop what fork servers have started. Servers and their supervisors go on.

    Args:
        supervisors: The processes that supervise the servers.
    """
    stopped: Stopped = {}
    deadline = time.monotonic() + _PATIENCE_S
    roots = tuple(supervisors)
    # A process may start another one until it stops, so look until there is no other.
    while _stop_others(roots, stopped) or not all(map(_is_still, stopped)):
        if time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_S)
    return stopped


def go_on(stopped: Stopped) -> None:
    """Continue stopped processes. Those that were killed are left alone."""
    for descriptor in stopped.values():
        _send(descriptor, signal.SIGCONT)
        os.close(descriptor)


def _stop_others(supervisors: Iterable[int], stopped: Stopped) -> bool:
    """Stop each process that is not stopped yet; return whether there was one."""
    found = False
    for pid in _started_by_servers(supervisors):
        if pid not in stopped:
            with contextlib.suppress(ProcessLookupError):
                stopped[pid] = os.pidfd_open(pid)
                _send(stopped[pid], signal.SIGSTOP)
                found = True
    return found


def _started_by_servers(supervisors: Iterable[int]) -> Iterator[int]:
    left = [
        child for one in supervisors for server in _children(one) for child in _children(server)
    ]
    while left:
        pid = left.pop()
        yield pid
        left += _children(pid)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended since
            found += map(int, file.read_text().split())
    return found


def _is_still(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] in _STILL
    return True  # it has ended


def _send(descriptor: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, number)
