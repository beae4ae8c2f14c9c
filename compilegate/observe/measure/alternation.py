"""Rounds in turns with another process: timed only when told to, so that two never time at once.

The child says ``{"turn": {"eager_ns": […], "compiled_ns": […], "iterations": N}}``: the rounds of
its last turn (none the first time, when it is ready), and how many calls a round should have. It is
told ``{"rounds": N, "iterations": N}``: the same calls a round as the other process, since what
preempts them shows more in longer rounds; no rounds end it. Between turns it holds no more of the
device's memory than it must, since the other process needs some too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from compilegate.records.encoding import dumps

Step = Callable[[], object]
Sides = tuple[list[float], list[float]]


@dataclass(frozen=True)
class Line:
    """The line to the pytest side.

    Attributes:
        say: Sends a line of JSON.
        heard: The lines that it is told.
    """

    say: Callable[[str], object]
    heard: Iterator[str]


class Turns:
    """One process's part.

    Args:
        line: To the pytest side.
        device: ``cpu`` or ``cuda``.
        rest: Lets go of what a step leaves behind.

    Attributes:
        iterations: Calls a round: first what this process would have, then what both were told.
    """

    def __init__(self, line: Line, device: str, rest: Step) -> None:
        self._line, self._device, self._rest = line, device, rest
        self.iterations = 1
        self._left = self._told = 0

    def goes_on(
        self,
        sides: Sides,
        steps: Sequence[Step],
        aside: Callable[[], AbstractContextManager[None]],
    ) -> bool:
        """Whether to time another round; waits for the next turn where this one is over.

        A turn begins with a call of each that does not count: what the other process did to caches
        and threads is not to show.

        Args:
            sides: All rounds so far, nanoseconds a call, of eager and compiled.
            steps: One call of each.
            aside: Entered while others are meant to be busy.
        """
        if not self._left:
            with aside():
                self._left = self._next_turn(sides)
            if not self._left:
                return False
            for step in steps:
                step()
        self._left -= 1
        return True

    def _next_turn(self, sides: Sides) -> int:
        self._give_back()
        rounds = {name: side[self._told :] for name, side in zip(_NAMES, sides, strict=True)}
        self._line.say(dumps({"turn": {**rounds, "iterations": self.iterations}}))
        self._told = len(sides[0])
        told = json.loads(next(self._line.heard))
        self.iterations = int(told["iterations"])
        return int(told["rounds"])

    def _give_back(self) -> None:
        self._rest()
        if self._device == "cuda":
            torch.cuda.empty_cache()


_NAMES = ("eager_ns", "compiled_ns")
