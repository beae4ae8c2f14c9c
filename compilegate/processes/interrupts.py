"""Handles SIGINT and SIGTERM: the first ends what runs, so that what was found is written.

Two at once are one: ``timeout`` sends a second to the process group. The second would break off
what is done about the first: end the children, and show the summary.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import TypeVar

Status = TypeVar("Status")

#: Signals that are so close together, in seconds, are one.
_TOGETHER_S = 1.0
#: The exit statuses that a shell shows of processes which SIGINT and SIGTERM ended.
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
#: What the signals do where nobody handles them.
_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


class Interrupts:
    """A handler of SIGINT and SIGTERM.

    Attributes:
        came: Whether any of them came.
        is_terminated: Whether SIGTERM came.
    """

    def __init__(self) -> None:
        self.came = self.is_terminated = False
        self._last_s = -_TOGETHER_S

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Interrupt what runs, unless that has just been done.

        Raises:
            KeyboardInterrupt: It has not. Its text names SIGTERM.
        """
        before_s, self._last_s = self._last_s, time.monotonic()
        self.is_terminated |= number == signal.SIGTERM
        if self._last_s - before_s < _TOGETHER_S:
            return
        is_second, self.came = self.came, True
        if number != signal.SIGTERM:
            signal.default_int_handler(number, frame)
        if is_second:  # whoever sends it again does not wait for a summary
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        raise KeyboardInterrupt(signal.SIGTERM.name)

    def status(self, own: Status) -> Status | int:
        """Return the exit status: its own, or after SIGTERM what a shell shows of that.

        Args:
            own: The status of what ended.
        """
        return TERMINATED if self.is_terminated else own


@contextlib.contextmanager
def taken_together() -> Iterator[Interrupts]:
    """Handle the signals in a ``with`` block, each if nobody else does."""
    interrupts, ours = Interrupts(), {}
    if threading.current_thread() is threading.main_thread():  # no other may set handlers
        ours = {n: before for n, before in _DEFAULTS.items() if signal.getsignal(n) is before}
    for number in ours:
        signal.signal(number, interrupts)
    try:
        yield interrupts
    finally:
        for number, before in ours.items():
            signal.signal(number, before)
