"""One case under observation: the pytest side listens to a child until the case ends."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from compilegate.processes.attempt_turn import AttemptTurn
from compilegate.processes.case_clock import CaseClock, Reason
from compilegate.processes.child_process import Child, Ended
from compilegate.processes.machine_turns import MachineTurns
from compilegate.processes.memory_shares import CaseMemory
from compilegate.processes.protocol import (
    SILENCE,
    GarbledAnswerError,
    Message,
    MisbehaviourError,
    Turn,
)
from compilegate.records.observation import BUSY_MACHINE, Failure, Observation, Stage, Status
from compilegate.records.practice import PRACTICES
from compilegate.records.request import Request

#: Reports progress: called with the case id, the stage, the seconds since the case began, and the
#: processes at work in it, ``2 cc1plus``.
Progress = Callable[[str, Stage, float, str], None]
#: Progress is reported at least this often, in seconds, while a stage lasts.
PROGRESS_S = 5.0
#: How often the processes of a case are looked at while its limit lasts, and the shortest pause
#: between two looks, in seconds.
_LOOKS, _PAUSE_S = 20, 0.1
#: The activity of what a case spent and nobody sees.
LOST = "lost to crashes"
#: Processes that get less than this share of a processor do nothing.
_IDLE = 0.02


def ignore_progress(case_id: str, stage: Stage, elapsed_s: float, at_work: str) -> None:
    """Report nothing."""


class Attempt:
    """The attempt to observe one case.

    Its clock runs only while it waits for a message, so that a child which waits for
    another process loses no time.

    Args:
        request: What the child observes.
        child: The child, or None if ``observation`` is already known.
        timeout_s: Seconds without progress after which the child is killed: see
            :class:`CaseClock`.
        observation: The result, if the child cannot even start.
        end: Ends the child.
        died: Called with status and failure when the child ends without an answer.
        progress: Called when the stage changes, and about every five seconds.
        memory: The case's share of the memory of a GPU that others use, too; None without one.
        turns: The turns of the machine, where other children of the session run.

    Attributes:
        observation: The observation; None until the case ends.
        probing: The extreme numbers with which eager makes a probing call, or made one when the
            case ended; empty at other times.
        lost_in: The other probing call in which eager has lost the GPU; empty for none.
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
        memory: CaseMemory | None = None,
        turns: MachineTurns | None = None,
    ) -> None:
        self.observation, self.probing, self.lost_in = observation, "", ""
        self._request, self._child = request, child
        self._end, self._died, self._progress, self._memory = end, died, progress, memory
        self._turn = AttemptTurn(turns, self._report_waiting)
        self._clock = CaseClock(timeout_s)
        self._every_s = min(PROGRESS_S, max(timeout_s / _LOOKS, _PAUSE_S))
        #: Seconds of listening, and whether the child sent anything, since its processes were
        #: looked at.
        self._heard_s, self._beats = 0.0, False
        self._began = self._reported = time.monotonic()
        self._stage: Stage | None = None
        self._so_far: Observation | None = None
        self._at_work = ""
        self._call = ""  # the probing call that began last
        if child is not None:
            child.work()  # what it did in earlier cases does not count

    def finish(self) -> Observation:
        """Listen until the case ends, and return its observation."""
        while self.observation is None:
            self._hear(expects_turn=False)
        return self.observation

    def take_turn(self) -> None:
        """Wait until no child of another worker runs. The end of the case gives the turn back."""
        self._turn.take()

    def send(self, **content: Any) -> None:
        """Send the child a message."""
        if self._child is not None:
            self._child.send(content)

    def hear_turn(self) -> Turn | None:
        """Listen until the child has timed rounds.

        Returns:
            The rounds. None if the case ended instead; ``observation`` is then set.
        """
        return self._hear(expects_turn=True)

    def _hear(self, *, expects_turn: bool) -> Turn | None:
        if self.observation is not None or self._child is None:
            return None
        try:
            turn = self._listen(self._child)
            if turn is not None and not expects_turn:
                raise GarbledAnswerError("it timed rounds that nobody asked for")
            return turn
        except MisbehaviourError as error:
            self._fail(self._child, "crashed", error.kind, f"{error.kind}: {error}")
        return None

    def _listen(self, child: Child) -> Turn | None:
        since = self._turn.now()
        reached: Reason | None = None
        for message in child.listen(every_s=self._every_s):
            now = self._turn.now()
            self._heard_s, since = self._heard_s + now - since, now
            self._beats |= message is not SILENCE
            self._report_progress(child.stage)
            if message.stage is not None and self._memory is not None:
                self._memory.hold(message.held_bytes)
            if message.needed_bytes is not None:
                self._reserve(child, message.needed_bytes)
                since = self._turn.now()
            if message.so_far is not None:
                self._so_far = self._own(message.so_far)
            self._call = message.call or self._call
            if message.probing is not None:
                self.probing = message.probing
            if message.lost_in is not None:
                self.lost_in = message.lost_in
            if message.observation is not None:
                self._complete(child, message, message.observation)
                return None
            if message.turn is not None:
                return message.turn
            if message.alone is not None:
                self._turn.answer(child, alone=message.alone)
                since = self._turn.now()
            reached = self._look(child)
            if reached is not None:
                break
        self._heard_s += self._turn.now() - since
        if reached is not None:
            with self._turn.undisturbed():
                child.ask_for_stacks()
            kind = BUSY_MACHINE if reached == "busy machine" else "timeout"
            self._fail(child, "timed_out", kind, self._clock.why(reached))
        else:
            assert child.ended is not None
            kind, how = end_of(child.ended)
            lack = child.lack_of_memory()
            self._fail(child, "out_of_memory" if lack else "crashed", kind, lack or how)
        return None

    def _reserve(self, child: Child, needed: int) -> None:
        if self._memory is not None:
            self._memory.reserve(needed, self._report_waiting_for_memory)
        child.send({"reserved": True})

    def _look(self, child: Child) -> Reason | None:
        """Advance the clock, if it is time; return the limit that the case has reached."""
        if self._heard_s < 0.9 * self._every_s:  # a wait may end a little early
            return None
        work = child.work()
        counted = Counter(work.helpers).most_common()
        self._at_work = ", ".join(f"{count} {name}" for name, count in counted)
        beat = self._beats or bool(work.helpers)
        self._clock.advance(self._heard_s, work, beat=beat)
        self._turn.lend(self._heard_s, idle=not beat and work.ran_s < _IDLE * self._heard_s)
        self._heard_s, self._beats = 0.0, False
        return self._clock.reached

    def _fail(self, child: Child, status: Status, kind: str, message: str) -> None:
        """Record that the case has failed, and end the child."""
        call = f", in the probing call: {self._call}" if child.stage == "probe" else ""
        failure = Failure(
            stage=child.stage,
            kind=kind,
            message=f"{message}{call}",
            output=child.output(),
            others_took=self._clock.others_took,
        )
        self._end()
        self._turn.over()
        self._died(status, failure)
        lost_s = self._clock.wall_s + self._heard_s
        so_far = self._so_far if child.stage in PRACTICES else None
        self.observation = failed(self._request, status, failure, so_far, lost_s=lost_s)

    def _complete(self, child: Child, message: Message, observation: Observation) -> None:
        self._turn.over()
        child.refuse_more()
        self.observation = replace(self._own(observation), output=child.output())
        if message.last:  # the next case needs another process
            self._end()

    def _own(self, observation: Observation) -> Observation:
        if observation.case != self._request.case:
            raise GarbledAnswerError(f"it is about another case: {observation.case[:200]!r}")
        return observation

    def _report_progress(self, stage: Stage) -> None:
        now = time.monotonic()
        if stage != self._stage or now - self._reported >= PROGRESS_S:
            self._stage, self._reported = stage, now
            self._progress(self._request.case, stage, now - self._began, self._at_work)

    def _report_waiting(self) -> None:
        elapsed_s = time.monotonic() - self._began
        self._progress(self._request.case, "time", elapsed_s, "waits for its turn")

    def _report_waiting_for_memory(self) -> None:
        elapsed_s = time.monotonic() - self._began
        self._progress(self._request.case, "eager", elapsed_s, "waits for memory")


def end_of(ended: Ended) -> tuple[str, str]:
    """Return the kind of a failure by which a child ended, and its message."""
    if ended.server is None:
        kind, how = death(ended.status)
        return kind, f"the process {how}"
    if not os.WIFSIGNALED(ended.server):
        return "exit", f"the fork server {death(ended.server)[1]}, and the process with it"
    name = signal.Signals(os.WTERMSIG(ended.server)).name
    return name, f"the fork server was killed, and the process with it: {name}"


def death(status: int | None) -> tuple[str, str]:
    """Return the signal that ended a process (or ``exit``), and words for how it ended."""
    if status is None:
        return "exit", "vanished"
    if not os.WIFSIGNALED(status):
        return "exit", f"exited with status {os.waitstatus_to_exitcode(status)} without an answer"
    number = os.WTERMSIG(status)
    named = {each.value: each.name for each in signal.Signals}
    name = named.get(number, f"signal {number}")  # most real-time signals have no name
    return name, f"was killed by {name}" if name == "SIGKILL" else f"died of {name}"


def failed(
    request: Request,
    status: Status,
    failure: Failure,
    so_far: Observation | None = None,
    *,
    lost_s: float = 0.0,
) -> Observation:
    """Return the observation of a case whose child returned none.

    Args:
        request: What the child was asked.
        status: How the case ended.
        failure: Why it ended.
        so_far: What the child had observed, if it ended in a practice.
        lost_s: Seconds spent on the case.
    """
    if so_far is not None:
        lost_s = max(lost_s - sum(so_far.spent_s.values()), 0.0)
        return replace(
            so_far,
            status=status,
            failure=failure,
            spent_s={**so_far.spent_s, LOST: lost_s},
            output=failure.output,
        )
    return Observation(
        case=request.case,
        status=status,
        failure=failure,
        wants=request.wants,
        backend=request.backend,
        cold=request.cold,
        seed=request.seed,
        tf32=request.tf32,
        spent_s={LOST: lost_s},
        output=failure.output,
    )
