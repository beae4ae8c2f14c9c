"""How long trials of a case that hung may make no progress."""

from __future__ import annotations

import re
import time

from compilegate.records.observation import Failure

#: The least that is safe on a slow machine, and the most, in seconds.
_LEAST_S, _MOST_S = 20.0, 60.0
#: How many times the longest step of the trials that ended.
_TIMES = 5
#: How a case that hung tells the session's limit, in seconds.
_LIMIT = re.compile(r"no progress for ([\d.]+) s$")


class Patience:
    """Times the steps of trials: one that passes tells how long each may take.

    Args:
        failure: How the case hung; None if it did not.
    """

    def __init__(self, failure: Failure | None) -> None:
        limit = _LIMIT.match(failure.message) if failure is not None else None
        self._most_s = min(_MOST_S, float(limit[1])) if limit else _MOST_S
        self._step, self._since = "", 0.0
        self._step_s = self._longest_s = 0.0  # in this trial, and in those that ended

    def step(self, name: str) -> None:
        """Note that a step of a trial begins, or goes on. An empty name begins the trial."""
        if name and name == self._step:
            return
        now = time.monotonic()
        if not name:
            self._step_s = 0.0
        elif self._step not in ("", "start"):  # the process starts
            self._step_s = max(now - self._since, self._step_s)
        self._step, self._since = name, now

    def end(self, *, hung: bool) -> None:
        """Note that a trial ended."""
        self.step("end")
        if not hung:
            self._longest_s = max(self._step_s, self._longest_s)

    @property
    def trial_s(self) -> float:
        """Seconds without progress after which a trial hangs, at most the session's own limit."""
        if not self._longest_s:
            return self._most_s
        return min(max(_LEAST_S, _TIMES * self._longest_s), self._most_s)

    @property
    def script_s(self) -> float:
        """The same for a script, which compiles in a process of its own."""
        return max(self.trial_s, _LEAST_S)
