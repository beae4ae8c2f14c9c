"""Timed rounds that alternate with those of another process, so that two never time at once.

The parent decides when each process times its rounds. A child sends

    {"turn": {"eager_ns": […], "compiled_ns": […], "iterations": N}}

with the rounds since its last message (none in the first one, which reports that it is ready) and
the calls that it would have in a round. The parent answers ``{"rounds": N, "iterations": N}``. Both
processes get the same calls in a round, because interruptions show more in longer rounds; zero
rounds end the timing. Between messages a child holds no more of the device's memory than it must,
since the other process needs some, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from compilegate.observe.device.protocol import Device, Step
from compilegate.records.encoding import dumps
from compilegate.records.observation import Observation
from compilegate.records.run import encode

#: Nanoseconds of a call, by round: of eager, and of compiled code.
Sides = tuple[list[float], list[float]]

_NAMES = ("eager_ns", "compiled_ns")


@dataclass(frozen=True)
class ParentConnection:
    """The connection to the parent process.

    Attributes:
        send: Sends a line of JSON.
        received: The lines that the parent sends, one after the other.
    """

    send: Callable[[str], object]
    received: Iterator[str]

    def report(self, so_far: Observation) -> None:
        """Send what was observed until now, before something that may end this process."""
        self.send(dumps({"so_far": json.loads(encode(so_far))}))

    def report_probing(self, numbers: str) -> None:
        """Send with which extreme numbers eager makes a probing call; none after it."""
        self.send(dumps({"probing": numbers}))

    def report_call(self, probe: str) -> None:
        """Send which probing call begins."""
        self.send(dumps({"call": probe}))

    def report_lost(self, probe: str) -> None:
        """Send in which other probing call eager has lost the GPU."""
        self.send(dumps({"lost_in": probe}))


class AlternatingRounds:
    """The rounds of one of two processes, timed when the parent asks for them.

    Args:
        parent: The connection to it.
        device: Runs the rounds.
        drop_results: Drops what a call leaves behind, gradients for example.

    Attributes:
        iterations: Calls in a round: at first what this process would have, then what the parent
            asks of both.
    """

    def __init__(self, parent: ParentConnection, device: Device, drop_results: Step) -> None:
        self._parent, self._device, self._drop_results = parent, device, drop_results
        self.iterations = 1
        self._left = self._sent = 0

    def has_next(
        self,
        sides: Sides,
        steps: Sequence[Step],
        waiting: Callable[[], AbstractContextManager[None]],
    ) -> bool:
        """Return whether to time another round; wait until the parent asks for it.

        Before the first round after a wait, each side is called once without being timed: the
        other process has used the caches and the threads.

        Args:
            sides: All rounds so far.
            steps: One call of each side.
            waiting: Entered while this process waits and the other one is busy.
        """
        if not self._left:
            with waiting():
                self._left = self._exchange(sides)
            if not self._left:
                return False
            for step in steps:
                step()
        self._left -= 1
        return True

    def _exchange(self, sides: Sides) -> int:
        """Send the rounds since the last message; return how many the parent asks for next."""
        self._release_memory()
        rounds = {name: side[self._sent :] for name, side in zip(_NAMES, sides, strict=True)}
        self._parent.send(dumps({"turn": {**rounds, "iterations": self.iterations}}))
        self._sent = len(sides[0])
        asked = json.loads(next(self._parent.received))
        self.iterations = int(asked["iterations"])
        return int(asked["rounds"])

    def _release_memory(self) -> None:
        self._drop_results()
        if self._device.allocator is not None:
            self._device.allocator.release_unused()
