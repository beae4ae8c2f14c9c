"""The machine, as this process shares it with those that observe other cases at the same time.

What is timed asks for the machine. The parent answers when all other processes of the session have
stopped (see ``processes/machine_turns``), and lets them go on when it is given back:

    {"alone": true}   the child asks, and the parent gives the same answer
    {"alone": false}  the child gives the machine back

On a processor that several workers share, a case runs on a part of it outside of its turns: threads
that wait for each other would else keep those of other cases from running.

A case that knows how much memory of the device it needs asks for it, too, and goes on when the
parent answers (see ``processes/memory_shares``): ``{"needed_bytes": …}``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from compilegate.observe.measure import processors
from compilegate.observe.measure.alternation import ParentConnection
from compilegate.records.encoding import dumps


class SharedMachine:
    """Asks for the machine, and knows for how long this process was stopped.

    Args:
        parent: The connection to the parent process; None if this process shares the machine with
            no other of the session.
        account: The file in which the parent writes for how many seconds it has stopped this
            process so far.
        part: The processors of this process, except in its turns; empty for all of them.
    """

    def __init__(
        self,
        parent: ParentConnection | None = None,
        account: str = "",
        part: Sequence[int] = (),
    ) -> None:
        self._parent, self._account, self._depth = parent, Path(account), 0
        self._part = part if parent is not None else ()
        if self._part:
            processors.settle_threads()
            processors.confine(self._part)

    @property
    def is_shared(self) -> bool:
        """Whether other processes of the session run on it."""
        return self._parent is not None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep all other processes of the session from running in a ``with`` block."""
        if self._parent is None or self._depth:
            yield
            return
        self._parent.send(dumps({"alone": True}))
        next(self._parent.received)
        self._depth += 1
        try:
            with self.on_all_processors():
                yield
        finally:
            self._depth -= 1
            self._parent.send(dumps({"alone": False}))

    @contextlib.contextmanager
    def on_all_processors(self) -> Iterator[None]:
        """Use all processors in a ``with`` block, where the parent has the turn."""
        if self._part:
            processors.confine(processors.ALL)
        try:
            yield
        finally:
            if self._part:
                processors.confine(self._part)

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
