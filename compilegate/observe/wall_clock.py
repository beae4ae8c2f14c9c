"""Notices that somebody set the wall clock. Durations are taken from the monotonic clock.

Two things have no other clock: the times of files, and PyTorch's durations of compile phases.
"""

from __future__ import annotations

import time

#: Seconds between two clocks that a busy machine reads one after the other.
_SLACK_S = 0.1


class WallClock:
    """The wall clock, from the moment of creation."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._offset_s = _offset_s()

    @property
    def was_set(self) -> bool:
        """Whether it shows more or less time than has passed; suspending a machine sets it, too."""
        return abs(_offset_s() - self._offset_s) > _SLACK_S

    @property
    def earliest_s(self) -> float:
        """The earliest time that a file can bear which was written since, by either setting."""
        return self._began_s + min(self._offset_s, _offset_s())


def _offset_s() -> float:
    """Return the wall clock's lead over the monotonic clock."""
    return time.time() - time.monotonic()
