"""The turn of one case: its child asks for the machine, and gives it back or ends."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from compilegate.processes.child_process import Child
from compilegate.processes.machine_turns import MachineTurns

#: A child that does nothing in its turn for this long may wait for a lock of a file that a stopped
#: process holds. The others then go on for some time. Both in seconds.
_IDLE_S, _LENT_S = 60.0, 5.0


class AttemptTurn:
    """Takes the turn when a child asks for it, and gives it back whatever becomes of the child.

    Args:
        turns: The turns of the machine; None if no other child of the session runs.
        waiting: Called every few seconds while others have their turn.
    """

    def __init__(self, turns: MachineTurns | None, waiting: Callable[[], None]) -> None:
        self._turns, self._waiting = turns, waiting
        self._is_ours = False
        self._idle_s = 0.0

    def now(self) -> float:
        """Return the seconds of a monotonic clock that stands still while the child is stopped."""
        return time.monotonic() - (self._turns.stopped_s if self._turns else 0.0)

    def answer(self, child: Child, *, alone: bool) -> None:
        """Answer a child that asks for the machine, or gives it back."""
        if not alone:
            self.over()
            return
        self.take()
        child.send({"alone": True})

    def take(self) -> None:
        """Wait for the turn. Attempts of one worker share it."""
        if self._turns is not None:
            self._turns.take(self._waiting)
            self._is_ours, self._idle_s = True, 0.0

    def lend(self, seconds: float, *, idle: bool) -> None:
        """Let others go on for a moment if the child has done nothing in its turn for long.

        Args:
            seconds: How long the child was watched since the last call.
            idle: Whether it did nothing.
        """
        self._idle_s = self._idle_s + seconds if idle and self._is_ours else 0.0
        if self._turns is not None and self._idle_s >= _IDLE_S:
            self._turns.give_back()
            time.sleep(_LENT_S)
            self._turns.take(self._waiting)
            self._idle_s = 0.0

    def undisturbed(self) -> AbstractContextManager[None]:
        """Keep the child from being stopped in a ``with`` block, so that it can answer a signal."""
        return self._turns.starting() if self._turns else contextlib.nullcontext()

    def over(self) -> None:
        """Give the turn back, if the child has it."""
        if self._turns is not None and self._is_ours:
            self._turns.give_back()
            self._is_ours = False
