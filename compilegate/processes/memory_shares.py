"""Plans the memory of cases that are observed at the same time: a case that does not fit waits.

Each worker keeps a locked file with the bytes of its case: those that are planned, or those that it
holds, if they are more. Where the lock is gone, its worker has died, and the bytes do not count.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from compilegate.processes.file_locks import ALONE, IN_COMMON, NONE, lock, opened

#: How often a case that does not fit looks again, and how often it reports that, in seconds.
_LOOK_S, _REPORT_S = 0.1, 5.0
#: A case that has waited for so long, in seconds, is served before others: the least, and what a
#: case waits that wants all memory. While it is served first, all others stand still, the longer
#: the more it wants.
_PATIENCE_S, _PATIENCE_FOR_ALL_S = 60.0, 600.0

Waiting = Callable[[], None]


@dataclass(frozen=True)
class _Taken:
    """What a worker has taken.

    Attributes:
        bytes: The bytes that count.
        since: When it began to wait for more, by a clock that all processes of the machine share;
            0 if it does not wait.
        until: When others begin to wait for it.
    """

    bytes: int = 0
    since: float = 0.0
    until: float = 0.0


class MemoryShares:
    """The memory that the workers of a session share, as one of them sees it.

    Args:
        folder: The folder of their files.
        capacity: The bytes of all workers together.

    Attributes:
        capacity: These bytes.
    """

    def __init__(self, folder: Path, capacity: int) -> None:
        self.capacity = capacity
        folder.mkdir(exist_ok=True)
        self._folder, self._queue = folder, opened(folder / "queue")
        descriptor, name = tempfile.mkstemp(".bytes", dir=folder)
        self._path, self._own = Path(name), opened(Path(name))
        with open(descriptor, "wb"):
            lock(self._own, ALONE)
        self._written = _Taken()

    @contextlib.contextmanager
    def taken(
        self, wanted: int, waiting: Waiting = lambda: None, *, at_least: int = 0
    ) -> Iterator[CaseMemory]:
        """Take memory for a ``with`` block, as soon as it is free.

        A case that wants more than there is gets all of it.

        Args:
            wanted: How many bytes.
            waiting: Called every few seconds of the wait.
            at_least: The bytes that the case keeps, even if it turns out to need less.

        Yields:
            The memory of the case. It wants to know what the case needs, and what it holds.
        """
        wanted = min(wanted, self.capacity)
        self.wait_for(wanted, waiting)
        try:
            yield CaseMemory(self, wanted, at_least=at_least)
        finally:
            self.write(0)

    def wait_for(self, wanted: int, waiting: Waiting, *, held: int = 0) -> None:
        """Wait until memory is free, and take it.

        Who fits goes on at once, also where others have waited for longer, so that a large case
        does not keep small ones waiting. A case that has waited for a minute is served first, or
        for up to ten if it wants far more than others. Memory is also given where all others that
        have some wait, too: none of them would free any.

        Args:
            wanted: How many bytes.
            waiting: Called every few seconds of the wait.
            held: The bytes that count while it waits.
        """
        since = reported = time.monotonic()
        patience_s = max(_PATIENCE_S, _PATIENCE_FOR_ALL_S * wanted / max(self.capacity, 1))
        while not self._take(wanted, _Taken(held, since, since + patience_s)):
            time.sleep(_LOOK_S)
            if time.monotonic() - reported >= _REPORT_S:
                reported = time.monotonic()
                waiting()

    def write(self, taken: int) -> None:
        """Write down how many bytes count."""
        self._write(_Taken(taken))

    def _take(self, wanted: int, waits: _Taken) -> bool:
        """Take memory, if it is free and nobody else looks at the same time; or else wait."""
        if not lock(self._queue, ALONE):
            return False
        try:
            if self._has_room_for(wanted, waits.since):
                self.write(wanted)
                return True
            self._write(waits)
            return False
        finally:
            lock(self._queue, NONE)

    def _write(self, now: _Taken) -> None:
        """Add a line with what counts, so that nobody reads an empty file. The last line counts."""
        if now != self._written:
            self._own.write(f"{now.bytes} {now.since} {now.until}\n".encode())
            self._written = now

    def close(self) -> None:
        """Take no part any more."""
        self._path.unlink(missing_ok=True)
        for file in (self._queue, self._own):
            file.close()

    def _has_room_for(self, wanted: int, since: float) -> bool:
        others = [_taken_in(path) for path in self._folder.glob("*.bytes") if path != self._path]
        now = time.monotonic()
        if any(0 < other.since < since and other.until < now for other in others):
            return False
        fits = sum(other.bytes for other in others) + wanted <= self.capacity
        return fits or all(other.since for other in others if other.bytes)


class CaseMemory:
    """The memory of one case: what is planned for it, and what it holds.

    Args:
        shares: The memory that workers share.
        planned: The bytes that it has taken.
        at_least: The bytes that it keeps.

    Attributes:
        planned: The bytes that are planned for it.
    """

    def __init__(self, shares: MemoryShares, planned: int, *, at_least: int = 0) -> None:
        self.planned = planned
        self._shares, self._held = shares, 0
        self._at_least = at_least

    def hold(self, held: int) -> None:
        """Count what the case holds now, if that is more than was planned."""
        self._held = held
        self._shares.write(max(self.planned, held))

    def reserve(self, needed: int, waiting: Waiting = lambda: None) -> None:
        """Plan what the case needs, now that this is known. Wait for what is missing.

        While it waits, only what the case holds counts: others may begin, and end.

        Args:
            needed: How many bytes.
            waiting: Called every few seconds of the wait.
        """
        needed = min(max(needed, self._at_least), self._shares.capacity)
        if needed > self.planned:
            self._shares.wait_for(needed, waiting, held=self._held)
        self.planned = needed
        self.hold(self._held)


def _taken_in(path: Path) -> _Taken:
    """Return what a worker has taken; nothing if it has died."""
    try:
        with FileIO(path) as file:
            if lock(file, IN_COMMON):
                return _Taken()
            lines = file.read().splitlines()
    except FileNotFoundError:  # it has closed since
        return _Taken()
    taken, since, until = lines[-1].split() if lines else (0, 0, 0)
    return _Taken(int(taken), float(since), float(until))
