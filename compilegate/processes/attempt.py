"""One case under observation: the pytest side listens to a child until the case ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import msgspec

from compilegate.processes.child_process import Child
from compilegate.records.observation import Failure, Observation, Stage, Status
from compilegate.records.request import Request

#: Reports progress: called with the case id, the stage and the seconds since the case began.
Progress = Callable[[str, Stage, float], None]
#: Progress is reported at least this often, in seconds, while a stage lasts.
PROGRESS_S = 5.0


def ignore_progress(case_id: str, stage: Stage, elapsed_s: float) -> None:
    """Report nothing."""


class Attempt:
    """The attempt to observe one case.

    Its clock runs only while :meth:`hear` waits for a message, so that a child which waits for
    another process loses no time.

    Args:
        request: What the child observes.
        child: The child, or None if ``observation`` is already known.
        timeout_s: Seconds of listening after which the child is killed.
        observation: The result, if the child cannot even start.
        end: Ends the child.
        died: Called with status and failure when the child ends without an answer.
        progress: Called when the stage changes, and about every five seconds.
    """

    def __init__(
        self,
        request: Request,
        child: Child | None,
        timeout_s: float,
        observation: Observation | None = None,
        *,
        end: Callable[[], None] = lambda: None,
        died: Callable[[Status, Failure], None] = lambda status, failure: None,
        progress: Progress = ignore_progress,
    ) -> None:
        self.observation = observation
        self._request, self._child = request, child
        self._end, self._died, self._progress = end, died, progress
        self._timeout_s, self._heard_s = timeout_s, 0.0
        self._began = self._reported = time.monotonic()
        self._stage: Stage | None = None

    def finish(self) -> Observation:
        """Listen until the case ends, and return its observation."""
        while self.observation is None:
            self.hear("observation")
        return self.observation

    def send(self, **content: Any) -> None:
        """Send the child a message."""
        if self._child is not None:
            self._child.send(content)

    def hear(self, key: str) -> Any:
        """Listen until a message has this key.

        Returns:
            The value of the key. None if the case ended instead; ``observation`` is then set.
        """
        child = self._child
        if self.observation is not None or child is None:
            return None
        started = time.monotonic()
        status: Status
        try:
            deadline = started + self._timeout_s - self._heard_s
            for message in child.listen(deadline, every_s=PROGRESS_S):
                self._report_progress(child.stage)
                if "observation" in message:
                    self._complete(child, message)
                    return None
                if key in message:
                    return message[key]
            assert child.ended is not None
            status, (kind, how) = "crashed", death(child.ended.status)
        except TimeoutError:
            child.ask_for_stacks()
            status, kind, how = "timed_out", "timeout", f"was killed after {self._timeout_s:g} s"
        finally:
            self._heard_s += time.monotonic() - started
        failure = Failure(
            stage=child.stage, kind=kind, message=f"the process {how}", output=child.output()
        )
        self._end()
        self._died(status, failure)
        self.observation = failed(self._request, status, failure, lost_s=self._heard_s)
        return None

    def _complete(self, child: Child, message: dict[str, Any]) -> None:
        made = message["observation"]
        made["output"] = child.output()
        if message["last"]:  # the next case needs another process
            self._end()
        self.observation = msgspec.convert(made, Observation, strict=False)

    def _report_progress(self, stage: Stage) -> None:
        now = time.monotonic()
        if stage != self._stage or now - self._reported >= PROGRESS_S:
            self._stage, self._reported = stage, now
            self._progress(self._request.case, stage, now - self._began)


def death(status: int | None) -> tuple[str, str]:
    """Return the signal that ended a process (or ``exit``), and words for how it ended."""
    if status is None:
        return "exit", "vanished"
    if not os.WIFSIGNALED(status):
        return "exit", f"exited with status {os.waitstatus_to_exitcode(status)} without an answer"
    name = signal.Signals(os.WTERMSIG(status)).name
    if name == "SIGKILL":
        return name, f"was killed by another process, most likely because memory ran out: {name}"
    return name, f"died of {name}"


def failed(request: Request, status: Status, failure: Failure, lost_s: float = 0.0) -> Observation:
    """Return the observation of a case whose child returned none.

    Args:
        request: What the child was asked.
        status: How the case ended.
        failure: Why it ended.
        lost_s: Seconds spent on the case.
    """
    return Observation(
        case=request.case,
        status=status,
        failure=failure,
        wants=request.wants,
        backend=request.backend,
        cold=request.cold,
        seed=request.seed,
        tf32=request.tf32,
        spent_s={"lost to crashes": lost_s},
        output=failure.output,
    )
