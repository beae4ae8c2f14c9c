"""Takes two interrupts at once for one: ``timeout -s INT`` sends a second to the process group.

The second would break off what is done about the first: end the children, and show the summary.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

#: Interrupts that are so close together, in seconds, are one.
_TOGETHER_S = 1.0


class Interrupts:
    """A handler of SIGINT."""

    def __init__(self) -> None:
        self._last_s = -_TOGETHER_S

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Interrupt what runs, unless that has just been done.

        Raises:
            KeyboardInterrupt: It has not.
        """
        before_s, self._last_s = self._last_s, time.monotonic()
        if self._last_s - before_s >= _TOGETHER_S:
            signal.default_int_handler(number, frame)


@contextlib.contextmanager
def taken_together() -> Iterator[None]:
    """Handle interrupts in a ``with`` block, if nobody else does."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()  # no other may set handlers
    if before is not signal.default_int_handler or not is_main:
        yield
        return
    signal.signal(signal.SIGINT, Interrupts())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
