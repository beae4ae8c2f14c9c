"""The machine, as this process shares it with those that observe other cases at the same time.

What is timed asks for the machine. The parent answers when all other processes of the session have
stopped (see ``processes/machine_turns``), and lets them go on when it is given back:

    {"alone": true}   the child asks, and the parent gives the same answer
    {"alone": false}  the child gives the machine back

A case that knows how much memory of the device it needs asks for it, too, and goes on when the
parent answers (see ``processes/memory_shares``): ``{"needed_bytes": …}``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from compilegate.observe.measure.alternation import ParentConnection
from compilegate.records.encoding import dumps


class SharedMachine:
    """Asks for the machine, and knows for how long this process was stopped.

    Args:
        parent: The connection to the parent process; None if this process shares the machine with
            no other of the session.
        account: The file in which the parent writes for how many seconds it has stopped this
            process so far.
    """

    def __init__(self, parent: ParentConnection | None = None, account: str = "") -> None:
        self._parent, self._account, self._depth = parent, Path(account), 0

    @property
    def is_shared(self) -> bool:
        """Whether other processes of the session run on it."""
        return self._parent is not None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep all other processes of the session from running in a ``with`` block."""
        if self._parent is not None and not self._depth:
            self._parent.send(dumps({"alone": True}))
            next(self._parent.received)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._parent is not None and not self._depth:
                self._parent.send(dumps({"alone": False}))

    def reserve(self, needed_bytes: int) -> None:
        """Wait until so much memory of the device is planned for this process."""
        if self._parent is not None:
            self._parent.send(dumps({"needed_bytes": needed_bytes}))
            next(self._parent.received)

    def running_s(self) -> float:
        """Return the seconds of a monotonic clock that stands still while this process does."""
        return time.perf_counter() - self.stopped_s()

    def stopped_s(self) -> float:
        """Return for how many seconds this process was stopped so far."""
        return 0.0 if self._parent is None else float(self._account.read_text())


#: The machine of a process that shares it with no other of its session.
OWN_MACHINE = SharedMachine()
