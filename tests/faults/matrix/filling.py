"""Fills cells with several stations at once, until all are filled or the time is over."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.faults.matrix.cells import Cell, spread
from tests.faults.matrix.observing import Report, Station, StoppedError, twin_of
from tests.faults.matrix.store import Store
from tests.faults.matrix.verdicts import Sound


class Filling:
    """Fills the cells that a store lacks.

    Args:
        store: What is filled, and takes what is filled now.
        file: Where the store is written after each cell.
        cells: All cells that are asked for.
        stop: Ends it, and what its stations observe.
        report: Called with each cell that is filled.
        known: Kind and case of cells that other files hold, which are not filled again.
    """

    def __init__(
        self,
        store: Store,
        file: Path,
        cells: list[Cell],
        stop: threading.Event,
        report: Report,
        *,
        known: Collection[tuple[str, str]] = (),
    ) -> None:
        self._store, self._file, self._report = store, file, report
        filled = {*known, *((cell.kind, cell.case) for cell in store.cells)}
        done, left = [], []
        for cell in cells:
            (done if (cell.kind.name, cell.case.id) in filled else left).append(cell)
        self._left: Iterator[list[Cell]] = spread(left, done)
        self._lock = threading.Lock()
        self._of_twin: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._stop = stop

    def run(self, stations: list[Station], minutes: float) -> None:
        """Fill cells until all are filled or the time is over.

        Raises:
            Exception: What ended a station. The other stations end, too.
        """
        errors: list[BaseException] = []

        def work(station: Station) -> None:
            try:
                self._work(station)
            except StoppedError:
                pass
            except BaseException as error:
                errors.append(error)
                self._stop.set()
            finally:
                station.close()

        threads = [threading.Thread(target=work, args=(station,)) for station in stations]
        until = time.monotonic() + 60 * minutes
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join(max(until - time.monotonic(), 0))
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
        if errors:
            raise errors[0]

    def _work(self, station: Station) -> None:
        while not self._stop.is_set() and (group := self.next_group()):
            for cell in group:
                filled = station.fill(cell, self._twin(cell, station))
                with self._lock:
                    self._store.cells.append(filled)
                    self._store.write(self._file)
                self._report(filled)

    def next_group(self) -> list[Cell]:
        """Take the cells of one case that are to be filled next; none if all are taken."""
        with self._lock:
            return next(self._left, [])

    def _twin(self, cell: Cell, station: Station) -> Sound:
        """Return what the twin of a cell showed. One station observes it, and others wait."""
        name = twin_of(cell)
        with self._lock:
            lock = self._of_twin[name]
        with lock:
            known = self._store.twins.get(name)
            if known is None or not station.has_results(cell):
                known = station.observe_twin(cell)
                with self._lock:
                    self._store.twins[name] = known
        return known
