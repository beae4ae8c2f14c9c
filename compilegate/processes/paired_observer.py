"""Observes a case under two PyTorch versions, turn by turn: two children, one device.

Each compiles while the other rests, and keeps its compiled case alive. Then rounds are timed in
turns A B B A, so that whatever drifts on the machine drifts for both, and each goes on alone: while
one's peak memory is measured, the other holds no more than it must.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from compilegate.processes.observer import Attempt, Observer
from compilegate.records.observation import Observation
from compilegate.records.pair import Pace, Pair, Side
from compilegate.records.request import Request
from compilegate.records.statistics import are_enough

SIDES: tuple[Side, Side] = ("baseline", "candidate")
#: Rounds of one turn. A B B A makes four turns, and each side's rounds twice as many.
_ROUNDS_A_TURN = 3


@dataclass(frozen=True)
class Both:
    """What observing one case under both versions gave.

    Attributes:
        baseline: Under the PyTorch in use.
        candidate: Under the new one.
        pair: How fast each was, where rounds were wanted.
    """

    baseline: Observation
    candidate: Observation
    pair: Pair | None


class PairedObserver:
    """Observes cases under two interpreters.

    Args:
        baseline: Under the PyTorch in use.
        candidate: Under the new one.
    """

    def __init__(self, baseline: Observer, candidate: Observer) -> None:
        self.baseline = baseline
        self._observers: Mapping[Side, Observer] = {"baseline": baseline, "candidate": candidate}

    def observe(
        self,
        request: Request,
        *,
        model: str,
        device: str,
        timeout_s: float,
        number: int = 0,
        first: Side = "baseline",
    ) -> Both:
        """Observe one case under both.

        Args:
            request: What to observe, on each side.
            model: The case's model.
            device: The case's device.
            timeout_s: Seconds of its own after which a child is killed.
            number: The pair's.
            first: Which side begins.
        """
        order = SIDES if first == "baseline" else SIDES[::-1]
        timed = "time" in request.wants
        attempts: dict[Side, Attempt] = {}
        ready: dict[Side, int] = {}
        for side in order:
            attempt = self._observers[side].begin(
                replace(request, in_turns=timed), model=model, device=device, timeout_s=timeout_s
            )
            attempts[side] = attempt
            if not timed:
                attempt.finish()
            elif (turn := attempt.hear("turn")) is not None:
                ready[side] = turn["iterations"]
        if timed:
            _take_turns(attempts, ready, request.speedup_threshold, 2 * request.timing_budget_s)
        made = {side: attempts[side].finish() for side in order}
        pair = _pair(made, number, first) if timed else None
        return Both(made["baseline"], made["candidate"], pair)

    def fresh_pair(
        self,
        request: Request,
        *,
        model: str,
        device: str,
        timeout_s: float,
        number: int,
    ) -> Pair:
        """Time one case again in two new processes; odd pairs begin with the baseline."""
        made = self.observe(
            replace(request, wants=("capture", "time")),
            model=model,
            device=device,
            timeout_s=timeout_s,
            number=number,
            first="baseline" if number % 2 else "candidate",
        )
        self.end_children()
        assert made.pair is not None
        return made.pair

    def end_children(self) -> None:
        """End the living children."""
        for observer in self._observers.values():
            observer.end_child()

    def close(self) -> None:
        """End all that was started; what is asked next starts anew."""
        for observer in self._observers.values():
            observer.close()


def _take_turns(
    attempts: Mapping[Side, Attempt],
    iterations: Mapping[Side, int],
    threshold: float,
    budget_s: float,
) -> None:
    """Have those that are ready time rounds A B B A; then let each go on, to its end, alone.

    They stop together, once the candidate's speedup is clear of the threshold after a few rounds,
    or the time is used up.

    Args:
        attempts: Both sides, in order.
        iterations: Calls a round that each would have, of those that are ready.
        threshold: The speedup to decide about.
        budget_s: Seconds for all rounds of both.
    """
    deadline = time.monotonic() + budget_s
    ready = [side for side in attempts if side in iterations]
    told = {"iterations": max(iterations.values(), default=1)}
    rounds: dict[Side, tuple[list[float], list[float]]] = {side: ([], []) for side in attempts}
    while ready:
        for side in (*ready, *reversed(ready)):
            if side not in ready:  # it died in this very round
                continue
            attempts[side].tell(rounds=_ROUNDS_A_TURN, **told)
            turn = attempts[side].hear("turn")
            if turn is None:
                ready.remove(side)
                continue
            rounds[side][0].extend(turn["eager_ns"])
            rounds[side][1].extend(turn["compiled_ns"])
        watched: Side = "candidate" if "candidate" in ready else "baseline"
        if are_enough(*rounds[watched], threshold, late=time.monotonic() > deadline):
            break
    for side in ready:
        attempts[side].tell(rounds=0, **told)
        attempts[side].finish()


def _pair(made: Mapping[Side, Observation], number: int, first: Side) -> Pair:
    paces: dict[Side, Pace | None] = {}
    for side, observation in made.items():
        paces[side] = Pace.of(observation.timing) if observation.timing else None
    lacking = [_why(side, made[side]) for side in SIDES if paces[side] is None]
    return Pair(
        case=made["candidate"].case,
        number=number,
        first=first,
        baseline=paces["baseline"],
        candidate=paces["candidate"],
        failure="; ".join(lacking),
    )


def _why(side: Side, observation: Observation) -> str:
    failure = observation.failure
    what = f"{failure.stage}: {failure.message}" if failure else "nothing to time"
    return f"the {side} was not timed ({what})"
