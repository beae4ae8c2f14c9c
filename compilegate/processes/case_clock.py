"""The clock of a case: it tells a case that hangs from one that waits for the processor.

It runs like the clock on the wall, less what other processes took. A thread that is ready to run
and must wait loses time that is not the case's. A thread that sleeps, that waits for a lock or for
the GPU, or that runs for ever, loses none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: A case that goes on making progress ends after this many times its limit on its own clock, and
#: after this many times its limit on the wall. The second comes first only where others took more
#: than half of the processor time that the case wanted.
OWN_LIMITS, WALL_LIMITS = 3, 6

#: Why a case is ended: it hangs, it goes on for too long, or others take its processor.
Reason = Literal["no progress", "no end", "busy machine"]


@dataclass(frozen=True)
class Work:
    """What the processes of a case did between two readings.

    Attributes:
        ran_s: Processor time that their threads got.
        waited_s: Time that their threads were ready to run and waited for a processor; None where
            the kernel does not count it.
        cores: How many processors they may use at once.
        helpers: The names of processes other than the child that started or worked: compilers.
    """

    ran_s: float = 0.0
    waited_s: float | None = 0.0
    cores: float = 1.0
    helpers: tuple[str, ...] = ()


class CaseClock:
    """The time that a case has taken, and the limit that it has reached.

    Args:
        limit_s: Seconds without progress after which a case hangs.

    Attributes:
        wall_s: Seconds on the wall.
        own_s: Seconds on the clock of the case.
        quiet_s: Those of them since the last progress.
        lost_s: Processor time that the case wanted and others took.
    """

    def __init__(self, limit_s: float) -> None:
        self.wall_s = self.own_s = self.quiet_s = self.lost_s = 0.0
        self._limit_s, self._wanted_s = limit_s, 0.0
        self._is_measured = True

    def advance(self, wall_s: float, work: Work, *, beat: bool) -> None:
        """Add an interval.

        Args:
            wall_s: Its seconds on the wall.
            work: What the processes of the case did in it.
            beat: Whether the case made progress in it.
        """
        waited_s = work.waited_s or 0.0
        # Threads that wait for each other, since there are more of them than cores, lose nothing.
        wanted_s = min(work.ran_s + waited_s, work.cores * wall_s)
        lost_s = max(wanted_s - work.ran_s, 0.0)
        # Where several threads wanted a processor, each of them lost the same share of the time.
        own_s = wall_s - (lost_s * min(1.0, wall_s / wanted_s) if lost_s else 0.0)
        self._is_measured &= work.waited_s is not None
        self._wanted_s += wanted_s
        self.lost_s += lost_s
        self.wall_s += wall_s
        self.own_s += own_s
        self.quiet_s = 0.0 if beat else self.quiet_s + own_s

    @property
    def others_took(self) -> float | None:
        """The share of the wanted processor time that others took; None where it is unknown."""
        if not self._is_measured:
            return None
        return self.lost_s / self._wanted_s if self._wanted_s else 0.0

    @property
    def reached(self) -> Reason | None:
        """The limit that the case has reached; None while it may go on."""
        if self.quiet_s >= self._limit_s:
            return "no progress"
        if self.own_s >= OWN_LIMITS * self._limit_s:
            return "no end"
        if self.wall_s >= WALL_LIMITS * self._limit_s:
            return "busy machine"
        return None

    def why(self, reason: Reason) -> str:
        """Return why the case is ended, in words."""
        match reason:
            case "no progress":
                return f"no progress for {self._limit_s:g} s"
            case "no end":
                return f"it made progress, but did not end within {OWN_LIMITS * self._limit_s:g} s"
            case "busy machine":
                share = f"other processes took {self.lost_s / self._wanted_s:.0%}"
                ended = f"it did not end within {WALL_LIMITS * self._limit_s:g} s"
                return f"the machine was busy ({share}): {ended}"
