"""Observes a case under two PyTorch versions: two children that alternate on one device.

Each child compiles while the other waits, and keeps its compiled case alive. Then they time rounds
in the order A B B A, so that whatever drifts on the machine drifts for both. Where other workers
observe, too, both have one turn of the machine (``machine_turns``) for all their rounds. Each child
finishes alone: while one measures its peak memory, the other holds only its compiled case.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from compilegate.processes import deadly_probes
from compilegate.processes.attempt import Attempt
from compilegate.processes.observer import Observer
from compilegate.records.observation import Observation
from compilegate.records.pair import Costs, Pair, Side
from compilegate.records.request import Request
from compilegate.records.statistics import are_enough

SIDES: tuple[Side, Side] = ("baseline", "candidate")
#: Rounds that a child times before the other continues. A B B A gives each side twice as many.
_ROUNDS_AT_A_TIME = 3


@dataclass(frozen=True)
class Both:
    """The result of observing one case under both versions.

    Attributes:
        baseline: The observation under the PyTorch in use.
        candidate: The observation under the candidate.
        pair: The costs of each side.
    """

    baseline: Observation
    candidate: Observation
    pair: Pair


class PairedObserver:
    """Observes cases under two interpreters.

    Args:
        baseline: Observes under the PyTorch in use.
        candidate: Observes under the candidate.
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
        """Observe one case under both versions.

        Args:
            request: What to observe on each side.
            model: The model of the case.
            device: The device of the case.
            timeout_s: Seconds after which a child is killed. Waiting for the other does not count.
            number: The number of the pair.
            first: The side that begins.
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
            elif (turn := attempt.hear_turn()) is not None:
                ready[side] = turn.iterations
        if timed:
            _alternate(attempts, ready, request.speedup_threshold, 2 * request.timing_budget_s)
        made = {side: attempts[side].finish() for side in order}
        for side in order:
            begin = functools.partial(
                self._observers[side].begin, model=model, device=device, timeout_s=timeout_s
            )
            again = deadly_probes.without_them(request, attempts[side], begin)
            if again is not None:  # both sides leave the same calls out
                return self.observe(
                    again,
                    model=model,
                    device=device,
                    timeout_s=timeout_s,
                    number=number,
                    first=first,
                )
        return Both(made["baseline"], made["candidate"], _pair(made, number, first))

    def fresh_pair(
        self,
        request: Request,
        *,
        model: str,
        device: str,
        timeout_s: float,
        number: int,
    ) -> Pair:
        """Measure one case again in two new processes. Odd pairs begin with the baseline."""
        made = self.observe(
            request,
            model=model,
            device=device,
            timeout_s=timeout_s,
            number=number,
            first="baseline" if number % 2 else "candidate",
        )
        self.end_children()
        return made.pair

    def end_children(self) -> None:
        """End the living children."""
        for observer in self._observers.values():
            observer.end_child()

    def close(self) -> None:
        """End both children and their servers. The next request starts new ones."""
        for observer in self._observers.values():
            observer.close()


def _alternate(
    attempts: Mapping[Side, Attempt],
    iterations: Mapping[Side, int],
    threshold: float,
    budget_s: float,
) -> None:
    """Have the sides that are ready time rounds in the order A B B A, then finish each alone.

    Both stop together: once the candidate's speedup is clearly above or below the threshold, or
    when the time is used up. The turn of the machine ends with a side, so the other takes it again.

    Args:
        attempts: The attempts of both sides, in order.
        iterations: The calls per round that each side proposes, for the sides that are ready.
        threshold: The speedup to decide about.
        budget_s: Seconds for all rounds of both sides.
    """
    ready = [side for side in attempts if side in iterations]
    agreed = max(iterations.values(), default=1)
    rounds: dict[Side, tuple[list[float], list[float]]] = {side: ([], []) for side in attempts}
    for side in ready:
        attempts[side].take_turn()
    deadline = time.monotonic() + budget_s
    while ready:
        for side in (*ready, *reversed(ready)):
            if side not in ready:  # it died earlier in this round
                continue
            attempts[side].take_turn()
            attempts[side].send(rounds=_ROUNDS_AT_A_TIME, iterations=agreed)
            turn = attempts[side].hear_turn()
            if turn is None:
                ready.remove(side)
                continue
            rounds[side][0].extend(turn.eager_ns)
            rounds[side][1].extend(turn.compiled_ns)
        watched: Side = "candidate" if "candidate" in ready else "baseline"
        if are_enough(*rounds[watched], threshold, late=time.monotonic() > deadline):
            break
    for side in ready:
        attempts[side].take_turn()
        attempts[side].send(rounds=0, iterations=agreed)
        attempts[side].finish()


def _pair(made: Mapping[Side, Observation], number: int, first: Side) -> Pair:
    costs: dict[Side, Costs | None] = {
        side: Costs.of(seen) if seen.failure is None or seen.timing else None
        for side, seen in made.items()
    }
    return Pair(
        case=made["candidate"].case,
        number=number,
        first=first,
        baseline=costs["baseline"],
        candidate=costs["candidate"],
        failure="; ".join(_why(side, made[side]) for side in SIDES if costs[side] is None),
    )


def _why(side: Side, observation: Observation) -> str:
    failure = observation.failure
    assert failure is not None
    return f"the {side} was not measured ({failure.stage}: {failure.message})"
