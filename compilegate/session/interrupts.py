"""Takes two interrupts at once for one: ``timeout -s INT`` sends a second to the process group.

The second would break off what pytest does about the first: end the children, and show the summary.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

import pytest

from compilegate.session.options import judges_suites

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


def pytest_sessionstart(session: pytest.Session) -> None:
    """Handle interrupts of a session of the suites, if nobody else does.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_sessionstart
    """
    is_free = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    is_main = threading.current_thread() is threading.main_thread()  # no other may set handlers
    if is_free and is_main and judges_suites(session.config):
        signal.signal(signal.SIGINT, Interrupts())


def pytest_unconfigure() -> None:
    """Give interrupts back.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_unconfigure
    """
    if isinstance(signal.getsignal(signal.SIGINT), Interrupts):
        signal.signal(signal.SIGINT, signal.default_int_handler)
