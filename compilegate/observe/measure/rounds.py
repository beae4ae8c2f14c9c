"""Times one call of eager beside one of compiled, in paired rounds."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence

import torch
from torch._C._autograd import DeviceType

from compilegate.observe.device.nvml import Gpu, UnavailableError
from compilegate.observe.measure.alternation import Sides, Turns
from compilegate.observe.measure.contention import OtherLoad
from compilegate.records.performance import Condition, Timing
from compilegate.records.statistics import FEWEST_ROUNDS, are_enough

Step = Callable[[], object]
#: Nanoseconds of a number of calls.
Clock = Callable[[Step, int], float]

#: A round lasts at least this long on either side: neither its clock nor its start is to show.
_SHORTEST_ROUND_NS = {"cpu": 2e6, "cuda": 5e6}
#: So far above that is aimed at: calls may turn out quicker than they were.
_MARGIN = 1.2
_MOST_ITERATIONS = 200
#: Warming up ends when two rounds in a row differ by less than this, after the fewest calls.
_STABLE, _FEWEST_WARMUPS, _MOST_WARMUPS = 0.05, 3, 20
#: Rounds are judged once in so many: each look is a chance to stop at a whim of the clock.
_JUDGED_EVERY = 5
#: The GPU's condition is looked at before the first round, after the last, and once in so many.
_LOOK_EVERY = 10
#: Calls whose kernels are added up.
_PROFILED_CALLS = 3


def paired_rounds(
    eager: Step,
    compiled: Step,
    *,
    device: str,
    seed: int,
    threshold: float,
    budget_s: float,
    items: int = 0,
    turns: Turns | None = None,
    shares_gpu: bool = False,
) -> Timing:
    """Time both sides in rounds, back to back in random order.

    Stops when the interval of the speedup lies clear of ``threshold`` after a few rounds, when the
    time is used up, or after the most rounds; never before the interval exists.

    Args:
        eager: One eager call.
        compiled: One compiled call.
        device: ``cpu`` or ``cuda``.
        seed: Of the order within rounds.
        threshold: The speedup to decide about.
        budget_s: Seconds for all rounds.
        items: What one call works on.
        turns: Rounds are timed when these say so, and stop when they end, whatever is above.
        shares_gpu: Whether other cases of the session are observed on this GPU meanwhile.
    """
    pacing: Turns | Alone = turns or Alone(threshold, time.monotonic() + budget_s)
    clock: Clock = _event_ns if device == "cuda" else _wall_ns
    steps = (eager, compiled)
    filling, paces = zip(
        *(_filling(step, clock, _SHORTEST_ROUND_NS[device]) for step in steps), strict=True
    )
    # The slower side limits a round: the fewest rounds of both must fit the budget.
    affordable = int(budget_s * 1e9 / (2 * FEWEST_ROUNDS * max(paces)))
    pacing.iterations = max(min(max(filling), affordable), 1)
    others = OtherLoad()
    conditions = _Conditions(device)
    order = random.Random(seed)
    sides: tuple[list[float], list[float]] = ([], [])
    while pacing.goes_on(sides, steps, others.ignored):
        if len(sides[0]) % _LOOK_EVERY == 0:
            conditions.look()
        for side in order.sample((0, 1), 2):
            sides[side].append(clock(steps[side], pacing.iterations) / pacing.iterations)
    conditions.look()
    busy = others.share()
    kernels = [_kernels_ns(step) for step in steps] if device == "cuda" else [0.0, 0.0]
    return Timing(
        eager_ns=tuple(sides[0]),
        compiled_ns=tuple(sides[1]),
        iterations=pacing.iterations,
        busy=busy,
        clock="events" if device == "cuda" else "wall",
        items=items,
        eager_kernels_ns=kernels[0],
        compiled_kernels_ns=kernels[1],
        conditions=tuple(conditions.seen),
        shares_gpu=shares_gpu,
    )


class Alone:
    """Rounds of one process, one after the other, until they are enough.

    Args:
        threshold: The speedup to decide about.
        deadline: When the time is used up, on the monotonic clock.

    Attributes:
        iterations: Calls a round.
    """

    def __init__(self, threshold: float, deadline: float) -> None:
        self.iterations = 1
        self._threshold, self._deadline = threshold, deadline

    def goes_on(self, sides: Sides, steps: Sequence[Step], aside: object) -> bool:
        """Whether to time another round. The arguments are those of :meth:`Turns.goes_on`."""
        late = time.monotonic() > self._deadline
        if len(sides[0]) % _JUDGED_EVERY and not late:
            return True
        return not are_enough(*sides, self._threshold, late=late)


def _filling(step: Step, clock: Clock, round_ns: float) -> tuple[int, float]:
    """How many calls fill a round, and nanoseconds of a call among so many.

    By itself a call takes longer on a GPU: it is waited for, and overlaps with no other.
    """
    pace = _warmed_ns(step, clock)
    calls = 1
    while pace * calls < round_ns and calls < _MOST_ITERATIONS:
        calls = min(math.ceil(_MARGIN * round_ns / pace), _MOST_ITERATIONS)
        quicker = min(clock(step, calls) for _ in range(2))  # one may fall on a hiccup
        pace = max(quicker / calls, 1.0)  # a clock may not have moved
    return calls, pace


def _warmed_ns(step: Step, clock: Clock) -> float:
    """Nanoseconds of a call by itself, once they have settled."""
    before = last = clock(step, 1)
    for calls in range(2, _MOST_WARMUPS + 1):
        before, last = last, clock(step, 1)
        if calls >= _FEWEST_WARMUPS and abs(last - before) <= _STABLE * before:
            break
    return min(before, last)


def _wall_ns(step: Step, iterations: int) -> float:
    start = time.perf_counter_ns()
    for _ in range(iterations):
        step()
    return float(time.perf_counter_ns() - start)


def _event_ns(step: Step, iterations: int) -> float:
    """From the GPU's reaching the first call to its having done the last."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(iterations):
        step()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e6


def _kernels_ns(step: Step) -> float:
    """Time of the GPU's kernels and copies in one call: less than its whole where it waits."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(_PROFILED_CALLS):
            step()
        torch.cuda.synchronize()
    events = profiler.profiler.kineto_results.events()
    on_gpu = (event for event in events if event.device_type() == DeviceType.CUDA)
    return sum(float(event.duration_ns()) for event in on_gpu) / _PROFILED_CALLS


class _Conditions:
    """The GPU's condition over time; nothing where there is none or NVML does not answer."""

    def __init__(self, device: str) -> None:
        self.seen: list[Condition] = []
        self._gpu: Gpu | None = None
        if device == "cuda":
            try:
                self._gpu = Gpu()
            except UnavailableError:
                self._gpu = None

    def look(self) -> None:
        if self._gpu is not None and (condition := self._gpu.condition()) is not None:
            self.seen.append(condition)
