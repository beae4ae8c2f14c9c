"""How far the observation of a case has come, and where its time went."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

from compilegate.observe.device.protocol import Allocator
from compilegate.observe.measure.shared_machine import OWN_MACHINE, SharedMachine
from compilegate.observe.time_spent import TimeSpent
from compilegate.records.observation import WAITING, WAITING_FOR_MEMORY, Stage
from compilegate.records.request import StageReport

#: Seconds between two signs of life at least, so that they do not disturb what is timed.
_BEAT_S = 1.0


class Progress:
    """The stage that a case has reached, and the time spent so far.

    Args:
        report: Called with each stage that the case enters, and again while it lasts.
        machine: The machine that this process shares with others.
        allocator: The device's. Where the machine is shared, it gives other processes what a stage
            held and the next does not need.

    Attributes:
        stage: The last stage entered.
        time: Seconds by activity.
        machine: The machine.
    """

    def __init__(
        self,
        report: StageReport,
        machine: SharedMachine = OWN_MACHINE,
        allocator: Allocator | None = None,
    ) -> None:
        self.stage: Stage = "build"
        self.machine = machine
        self.time = TimeSpent(machine.running_s)
        self._report, self._reported, self._allocator = report, time.monotonic(), allocator
        self._began, self._stopped_s = time.perf_counter(), machine.stopped_s()

    def enter(self, stage: Stage) -> None:
        """Enter a stage, and report it."""
        if stage != self.stage and self.machine.is_shared and self._allocator is not None:
            self._allocator.release_unused()
        self.stage, self._reported = stage, time.monotonic()
        self._report(stage)

    def beat(self) -> None:
        """Show that the case makes progress, at most once a second: report its stage again."""
        if time.monotonic() - self._reported >= _BEAT_S:
            self.enter(self.stage)

    def enter_call(self, stage: Stage) -> None:
        """Enter the stage of a call, unless it is one of the calls at varied sizes, or a probe."""
        if self.stage not in ("vary", "probe"):
            self.enter(stage)

    def spend(self, activity: str) -> AbstractContextManager[None]:
        """Add the time of a ``with`` block to an activity."""
        return self.time.spend(activity)

    def spent(self) -> dict[str, float]:
        """Return the seconds of each activity so far, and of all others together."""
        spent = dict(self.time.spent_s)
        if stopped_s := self.machine.stopped_s() - self._stopped_s:
            spent[WAITING] = spent.get(WAITING, 0.0) + stopped_s
        spent["other"] = time.perf_counter() - self._began - sum(spent.values())
        return spent

    def reserve(self, needed_bytes: int) -> None:
        """Wait until others of the session leave so much memory of the device."""
        if self.machine.is_shared:
            if self._allocator is not None:
                self._allocator.release_unused()
            self._report(self.stage)  # with what the process still holds
            with self.spend(WAITING_FOR_MEMORY):
                self.machine.reserve(needed_bytes)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Let nothing else of the session run in a ``with`` block. The wait for it is no work."""
        with contextlib.ExitStack() as turn:
            with self.spend(WAITING) if self.machine.is_shared else contextlib.nullcontext():
                turn.enter_context(self.machine.alone())
            yield
