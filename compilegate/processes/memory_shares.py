"""Plans the memory of cases that are observed at the same time: a case that does not fit waits.

Each worker keeps a locked file with the bytes of its case: those that are planned, or those that it
holds, if they are more. Where the lock is gone, its worker has died, and the bytes do not count.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

from compilegate.processes.file_locks import ALONE, IN_COMMON, NONE, lock, opened

#: How often a case that does not fit looks again, and how often it reports that, in seconds.
_LOOK_S, _REPORT_S = 0.1, 5.0


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
        self._written = 0

    @contextlib.contextmanager
    def taken(
        self, wanted: int, waiting: Callable[[], None] = lambda: None
    ) -> Iterator[Callable[[int], None]]:
        """Take memory for a ``with`` block, as soon as it is free.

        Whoever waits is served in turn, so that small cases do not keep a large one waiting. A case
        that wants more than there is gets all of it.

        Args:
            wanted: How many bytes.
            waiting: Called every few seconds of the wait.

        Yields:
            A function that is given the bytes which the case holds now.
        """
        wanted = min(wanted, self.capacity)
        reported = time.monotonic()

        def until(holds: Callable[[], bool]) -> None:
            nonlocal reported
            while not holds():
                time.sleep(_LOOK_S)
                if time.monotonic() - reported >= _REPORT_S:
                    reported = time.monotonic()
                    waiting()

        until(lambda: lock(self._queue, ALONE))
        until(lambda: self._of_others() + wanted <= self.capacity)
        self._write(wanted)
        lock(self._queue, NONE)
        try:
            yield lambda held: self._write(max(wanted, held))
        finally:
            self._write(0)

    def close(self) -> None:
        """Take no part any more."""
        self._path.unlink(missing_ok=True)
        for file in (self._queue, self._own):
            file.close()

    def _of_others(self) -> int:
        return sum(_bytes_of(path) for path in self._folder.glob("*.bytes") if path != self._path)

    def _write(self, taken: int) -> None:
        """Add a line, so that nobody reads an empty file. The last line counts."""
        if taken != self._written:
            self._own.write(f"{taken}\n".encode())
            self._written = taken


def _bytes_of(path: Path) -> int:
    """Return the bytes that a worker has taken; 0 if it has died."""
    try:
        with FileIO(path) as file:
            if lock(file, IN_COMMON):
                return 0
            file.seek(0)
            return int((file.read().split() or [0])[-1])
    except FileNotFoundError:  # it has closed since
        return 0
