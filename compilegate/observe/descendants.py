"""Processes that this process has started, or adopted after their own parents had ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, also in another session."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def ends_before_peer(pid: int, peer: socket.socket) -> bool:
    """Wait until a child process ends (return True), or the other end of a socket closes."""
    watched = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        poll.register(peer, 0)  # no event but its closing
        return any(descriptor == watched for descriptor, _ in poll.poll())
    finally:
        os.close(watched)


def ends_within(pid: int, seconds: float) -> bool:
    """Whether a child process ends within some seconds."""
    watched = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(watched)


def kill_group(leader: int) -> None:
    """Kill a process group, whether or not its leader lives."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def kill_children() -> None:
    """Kill the children of this process, and those that it adopts as they end, until none lives."""
    while children := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for child in map(int, children):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        for child in map(int, children):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def tree(pid: int) -> Iterator[int]:
    """Yield a process, then its descendants, also those in other sessions; parents come first.

    The children of a process are looked up after it was yielded.
    """
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended since
            for child in map(int, file.read_text().split()):
                yield from tree(child)


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants. Each is stopped first, so that it starts no other."""
    found = []
    for each in tree(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGSTOP)
            found.append(each)
    for each in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
