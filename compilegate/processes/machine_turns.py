"""Turns of the machine: what is exact runs at the same time, what is timed runs alone.

Each worker of a session observes cases in children of its own. While one of them times, every other
worker stops its children (``SIGSTOP``) and continues them afterwards (``SIGCONT``). Nobody stops
what another worker has started, so that whoever dies leaves nothing stopped:

- Files in a folder of the session carry locks, which the kernel releases when a process ends.
- ``turn`` is locked by the worker whose turn it is, or that waits for the others to stop.
- ``running`` is locked in common by all workers whose children run. Whoever has the turn locks it
  for itself, which succeeds when all others have stopped.
- ``starting`` is locked in common by each worker that starts a process, and cannot stop its own
  until then. Nobody takes the turn then: all others would stand still and wait for the start.
- If a worker dies, the supervisor of its children ends them. It is never stopped.

Work on the GPU that a stopped process has submitted still ends. Calls that warm up wait for it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from compilegate.processes import stopping
from compilegate.processes.file_locks import ALONE, IN_COMMON, NONE, lock, opened
from compilegate.processes.stopping import Stopped

#: How often a worker looks whether another one has taken the turn, and how often it tries to take
#: it, in seconds.
_LOOK_S, _TRY_S = 0.05, 0.01
#: Whoever waits for the turn reports it this often, in seconds.
_REPORT_S = 5.0


class MachineTurns:
    """The turns of one worker, and a thread that stops its children in the turns of others.

    Args:
        folder: The folder of the session's locks.

    Attributes:
        account: The file in which children read for how many seconds they were stopped so far.
    """

    def __init__(self, folder: Path) -> None:
        self._turn, self._running = opened(folder / "turn"), opened(folder / "running")
        self._starting = opened(folder / "starting")
        descriptor, name = tempfile.mkstemp(".stopped", dir=folder)
        os.close(descriptor)
        self.account = Path(name)
        self.account.write_text("0")
        #: Held while locks change, and as long as children are stopped or one is being started.
        self._gate = threading.RLock()
        self._has_turn = False
        self._supervisors: set[int] = set()
        self._stopped_s, self._stopped_since = 0.0, 0.0
        self._closing = threading.Event()
        while not lock(self._running, IN_COMMON):  # another worker times already
            time.sleep(_TRY_S)
        self._watcher = threading.Thread(target=self._watch, name="turns", daemon=True)
        self._watcher.start()

    @property
    def stopped_s(self) -> float:
        """For how many seconds the children of this worker were stopped so far."""
        since = self._stopped_since
        return self._stopped_s + (time.monotonic() - since if since else 0.0)

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Start processes in a ``with`` block, which no other worker's turn overlaps."""
        with self._gate:
            while not lock(self._starting, IN_COMMON):  # another worker looks whether one starts
                time.sleep(_TRY_S)
            try:
                yield
            finally:
                lock(self._starting, NONE)

    def add(self, supervisor: int) -> None:
        """Stop the children of another fork server, too, given the process that supervises it."""
        self._supervisors.add(supervisor)

    def remove(self, supervisor: int) -> None:
        """Forget a fork server that ends."""
        self._supervisors.discard(supervisor)

    def take(self, waiting: Callable[[], None] = lambda: None) -> None:
        """Wait until no child of another worker runs, and keep it so.

        Whoever has the turn keeps it.

        Args:
            waiting: Called every few seconds of the wait.
        """
        reported = time.monotonic()
        for attempt in (self._try_turn, self._try_alone):
            while not attempt():
                time.sleep(_TRY_S)
                if time.monotonic() - reported >= _REPORT_S:
                    reported = time.monotonic()
                    waiting()

    def give_back(self) -> None:
        """Let the children of other workers run again."""
        with self._gate:
            if self._has_turn:
                # The others have stopped, and lock it in common, too.
                lock(self._running, IN_COMMON)
                lock(self._turn, NONE)
                self._has_turn = False

    def close(self) -> None:
        """End the thread, and with it the locks."""
        self._closing.set()
        self._watcher.join()
        for file in (self._turn, self._running, self._starting):
            file.close()

    def _try_turn(self) -> bool:
        if not self._gate.acquire(blocking=False):  # another worker has its turn
            return False
        try:
            self._has_turn = not self._is_one_starting() and lock(self._turn, ALONE)
        finally:
            self._gate.release()
        return self._has_turn

    def _is_one_starting(self) -> bool:
        if not lock(self._starting, ALONE):
            return True
        lock(self._starting, NONE)
        return False

    def _try_alone(self) -> bool:
        with self._gate:
            return lock(self._running, ALONE)

    def _watch(self) -> None:
        while not self._closing.wait(_LOOK_S):
            with self._gate:
                if self._has_turn or not self._is_taken():
                    continue
                stopped = stopping.stop(self._supervisors)
                try:
                    self._stopped_since = time.monotonic()
                    self._wait_for_the_end()
                finally:
                    self._go_on(stopped)

    def _wait_for_the_end(self) -> None:
        """Let the other worker have its turn."""
        lock(self._running, NONE)
        while not self._closing.is_set() and (
            self._is_taken() or not lock(self._running, IN_COMMON)
        ):
            time.sleep(_TRY_S)

    def _go_on(self, stopped: Stopped) -> None:
        """Continue the children. They must find the time that they were stopped in the account."""
        self._stopped_s, self._stopped_since = self.stopped_s, 0.0
        with contextlib.suppress(OSError):  # the disk is full
            self.account.write_text(repr(self._stopped_s))
        stopping.go_on(stopped)

    def _is_taken(self) -> bool:
        """Whether another worker has the turn."""
        if not lock(self._turn, IN_COMMON):
            return True
        lock(self._turn, NONE)
        return False
