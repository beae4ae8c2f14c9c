"""The status line: what runs now, and for how long, where a terminal is attached."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from compilegate.output.visible import visible
from compilegate.reports.text import cut, duration

#: Least seconds between two updates of the status line.
_PAUSE_S = 1.0


class StatusLine:
    """A line that shows what runs, and goes away when something else is printed.

    Args:
        reporter: pytest's terminal reporter; None where it is turned off.
    """

    def __init__(self, reporter: Any) -> None:
        is_usable = reporter is not None and reporter.isatty
        self._reporter: Any = reporter if is_usable else None
        self._is_shown = False
        self._last_s = 0.0
        self._lock = threading.RLock()

    @property
    def is_usable(self) -> bool:
        """Whether a terminal is attached."""
        return self._reporter is not None

    def show(self, text: str) -> None:
        """Show a text in place of the last one; nothing without a terminal."""
        now = time.monotonic()
        with self._lock:
            if self._reporter is None or (self._is_shown and now - self._last_s < _PAUSE_S):
                return
            self._last_s, self._is_shown = now, True
            self._reporter.rewrite(cut(visible(text), self._reporter._tw.fullwidth - 1), erase=True)
            self._reporter.flush()

    def clear(self) -> None:
        """Remove the line."""
        with self._lock:
            if self._is_shown:
                self._is_shown = False
                self._reporter.rewrite("", erase=True)
                self._reporter.rewrite("")
                self._reporter.flush()

    @contextlib.contextmanager
    def removed(self) -> Iterator[None]:
        """Remove the line, and keep other threads from showing it again while the caller prints."""
        with self._lock:
            self.clear()
            yield


def observed_text(case_id: str, stage: str, elapsed_s: float, at_work: str) -> str:
    """Return what this process observes: ``CASE: compile, 12 s, 2 cc1plus at work``.

    Args:
        case_id: The case; empty while a child starts.
        stage: The stage that it has reached.
        elapsed_s: Seconds since it began.
        at_work: The processes that work for it, other than the child.
    """
    what = f"{case_id}: {stage}" if case_id else "starting a process"
    helpers = f", {at_work} at work" if at_work else ""
    return f"{what}, {duration(elapsed_s)}{helpers}"


class WorkersAtWork:
    """Shows the cases that xdist's workers observe.

    The controller hears from a worker only when a test begins and ends, so a thread keeps the line
    up to date.

    Args:
        status: The line.
    """

    def __init__(self, status: StatusLine) -> None:
        self._status = status
        self._began: dict[str, float] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        if status.is_usable:
            threading.Thread(target=self._run, daemon=True).start()

    def begin(self, case_id: str) -> None:
        """Note that a worker has begun a test of a case."""
        with self._lock:
            self._began.setdefault(case_id, time.monotonic())

    def end(self, case_id: str) -> None:
        """Note that the tests of a case have ended."""
        with self._lock:
            self._began.pop(case_id, None)

    def stop(self) -> None:
        """End the thread."""
        self._over.set()

    def text(self) -> str:
        """Return the cases that are observed now, the longest first."""
        now = time.monotonic()
        with self._lock:
            running = sorted(self._began.items(), key=lambda item: item[1])
        return ", ".join(f"{case_id} {duration(now - began)}" for case_id, began in running)

    def _run(self) -> None:
        while not self._over.wait(_PAUSE_S):
            if text := self.text():
                self._status.show(f"[{len(self._began)} at work] {text}")
