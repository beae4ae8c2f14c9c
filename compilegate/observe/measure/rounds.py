"""Times one call of eager against one of compiled code, in paired rounds."""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch

from compilegate.observe.device.protocol import Device, Sensors, Step, UnavailableError
from compilegate.observe.measure.alternation import AlternatingRounds, Sides
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.threads import one_thread
from compilegate.records.performance import Condition, Timing
from compilegate.records.statistics import FEWEST_ROUNDS, are_enough, is_busy

#: By this factor a round is planned to be longer than the shortest one: later calls may be faster.
_MARGIN = 1.2
_MOST_ITERATIONS = 200
#: Warming up ends when two calls in a row differ by less than this share, after the fewest calls.
_STABLE, _FEWEST_WARMUPS, _MOST_WARMUPS = 0.05, 3, 20
#: After this many rounds, compilegate decides whether they are enough. Deciding after every round
#: would give chance more occasions to end the timing.
_ROUNDS_PER_DECISION = 5
#: The device's condition is read before the first round, each time after this many, and at the end.
_ROUNDS_PER_CONDITION = 10
#: Calls whose kernels are profiled, and calls with one thread.
_PROFILED_CALLS, _CALLS_OF_ONE_THREAD = 3, 5


def paired_rounds(
    eager: Step,
    compiled: Step,
    *,
    device: Device,
    seed: int,
    threshold: float,
    budget_s: float,
    items: int = 0,
    alternating: AlternatingRounds | None = None,
    beat: Callable[[], None] = lambda: None,
    shares_gpu: bool = False,
    alone: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> Timing:
    """Time both sides in rounds, back to back in random order.

    Timing stops when the interval of the speedup lies clear of ``threshold`` after a few rounds,
    when the time is used up, or after the most rounds; never before the interval exists.

    Args:
        eager: One eager call.
        compiled: One compiled call.
        device: Runs them.
        seed: Seeds the order within rounds.
        threshold: The speedup to decide about.
        budget_s: Seconds for all rounds.
        items: How many items one call processes.
        alternating: Decides when rounds are timed and when they end, instead of the rule above.
        beat: Called before each round, to show that the case makes progress.
        shares_gpu: Whether other cases of the session run on this GPU at the same time.
        alone: Entered while calls are made before and after the rounds. For the rounds, the process
            has the machine for itself.
    """
    schedule: AlternatingRounds | OwnRounds
    schedule = alternating or OwnRounds(threshold, time.monotonic() + budget_s)
    steps = (eager, compiled)
    with alone():
        needed, call_ns = zip(*(calls_of_a_round(step, device) for step in steps), strict=True)
    # The slower side limits a round: the fewest rounds of both must fit the budget.
    affordable = int(budget_s * 1e9 / (2 * FEWEST_ROUNDS * max(call_ns)))
    schedule.iterations = max(min(max(needed), affordable), 1)
    others = OtherProcesses()
    conditions = _Conditions(device)
    order = random.Random(seed)
    sides: Sides = ([], [])
    while schedule.has_next(sides, steps, others.paused):
        beat()
        if len(sides[0]) % _ROUNDS_PER_CONDITION == 0:
            conditions.read()
        for side in order.sample((0, 1), 2):
            taken_ns = device.elapsed_ns(steps[side], schedule.iterations)
            sides[side].append(taken_ns / schedule.iterations)
    conditions.read()
    busy = others.share()
    threads = torch.get_num_threads() if device.kind == "cpu" else 0
    with alone():
        kernels = [device.kernels_ns(step, _PROFILED_CALLS) for step in steps]
        one_thread_ns = _one_thread_ns(eager, device) if threads and is_busy(busy, threads) else 0.0
    return Timing(
        eager_ns=tuple(sides[0]),
        compiled_ns=tuple(sides[1]),
        iterations=schedule.iterations,
        busy=busy,
        clock=device.clock,
        items=items,
        eager_kernels_ns=kernels[0],
        compiled_kernels_ns=kernels[1],
        conditions=tuple(conditions.seen),
        conditions_unavailable=conditions.unavailable,
        shares_gpu=shares_gpu,
        threads=threads,
        one_thread_ns=one_thread_ns,
    )


class OwnRounds:
    """Rounds of a process that times alone, one after the other, until they are enough.

    Args:
        threshold: The speedup to decide about.
        deadline: When the time is used up, on the monotonic clock.

    Attributes:
        iterations: Calls in a round.
    """

    def __init__(self, threshold: float, deadline: float) -> None:
        self.iterations = 1
        self._threshold, self._deadline = threshold, deadline

    def has_next(self, sides: Sides, steps: Sequence[Step], waiting: object) -> bool:
        """Return whether to time another round; see :meth:`AlternatingRounds.has_next`."""
        late = time.monotonic() > self._deadline
        if len(sides[0]) % _ROUNDS_PER_DECISION and not late:
            return True
        return not are_enough(*sides, self._threshold, late=late)


def calls_of_a_round(step: Step, device: Device) -> tuple[int, float]:
    """Return how many calls fill a round, and the nanoseconds of one call among them.

    A single call takes longer on a GPU: it is waited for, and overlaps with no other call.
    """
    call_ns = _warm_call_ns(step, device)
    calls = 1
    while call_ns * calls < device.shortest_round_ns and calls < _MOST_ITERATIONS:
        calls = min(math.ceil(_MARGIN * device.shortest_round_ns / call_ns), _MOST_ITERATIONS)
        faster = min(device.elapsed_ns(step, calls) for _ in range(2))  # one may be interrupted
        call_ns = max(faster / calls, 1.0)  # the clock may not have moved
    return calls, call_ns


def _one_thread_ns(step: Step, device: Device) -> float:
    with one_thread():
        return min(device.elapsed_ns(step, 1) for _ in range(_CALLS_OF_ONE_THREAD))


def _warm_call_ns(step: Step, device: Device) -> float:
    """Return the nanoseconds of a single call, once they have settled."""
    before = last = device.elapsed_ns(step, 1)
    for calls in range(2, _MOST_WARMUPS + 1):
        before, last = last, device.elapsed_ns(step, 1)
        if calls >= _FEWEST_WARMUPS and abs(last - before) <= _STABLE * before:
            break
    return min(before, last)


class _Conditions:
    """The device's condition over time; empty where it has no sensors or they do not answer.

    Attributes:
        seen: What was read.
        unavailable: Why the last reading failed; empty if none did.
    """

    def __init__(self, device: Device) -> None:
        self.seen: list[Condition] = []
        self.unavailable = ""
        self._sensors: Sensors | None = None
        if device.has_sensors:
            try:
                self._sensors = device.open_sensors()
            except UnavailableError as error:
                self.unavailable = str(error)

    def read(self) -> None:
        if self._sensors is None:
            return
        try:
            self.seen.append(self._sensors.condition())
        except UnavailableError as error:
            self.unavailable = str(error)
