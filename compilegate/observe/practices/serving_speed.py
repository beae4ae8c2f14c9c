"""How fast threads are served: calls a second and their 95th percentile, of both sides in pairs."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from compilegate.observe.device import device as device_of
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.measure.rounds import OwnRounds
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.calling_threads import CallingThreads
from compilegate.observe.practices.served import Served
from compilegate.records.statistics import FEWEST_ROUNDS, paired_speedup
from compilegate.zoo.example import Call

#: Seconds for all rounds, if the fewest do not take longer.
_ROUNDS_S = 3.0
#: The fewest and the most calls that a thread makes in a round. The 95th percentile of a round is
#: taken over the calls of all threads.
_FEWEST_CALLS, _MOST_CALLS = 5, 50


@dataclass
class _Side:
    """One way to be served, and what its rounds took.

    Attributes:
        subject: What is called.
        calls: The arguments of each thread.
        threads: How many threads call.
        call_ns: Nanoseconds a call by round: the time of the round over all calls in it.
        p95_ns: The 95th percentile of the nanoseconds from a call to its answer, by round.
    """

    subject: Subject
    calls: list[Call]
    threads: int
    call_ns: list[float] = field(default_factory=list)
    p95_ns: list[float] = field(default_factory=list)

    def take_round(self, threads: CallingThreads, calls: int) -> None:
        """Let each thread make a number of calls, one after the other, and all threads at once."""
        subject, device = self.subject, device_of(self.subject.case.device)

        def serve(number: int) -> list[int]:
            moments = [time.perf_counter_ns()]
            for _ in range(calls):
                subject.forward(self.calls[number])
                device.synchronize()  # the answer has arrived
                moments.append(time.perf_counter_ns())
            return moments

        made = threads.run(serve, threads=self.threads)
        first, last = min(one[0] for one in made), max(one[-1] for one in made)
        waits = [b - a for one in made for a, b in itertools.pairwise(one)]
        self.call_ns.append((last - first) / len(waits))
        self.p95_ns.append(statistics.quantiles(waits, n=20, method="inclusive")[-1])

    def forget_rounds(self) -> None:
        """Forget the rounds so far: they warmed up."""
        self.call_ns.clear()
        self.p95_ns.clear()


def measure(bench: Bench, threads: CallingThreads, served: Served) -> dict[str, float]:
    """Time eager and compiled code in all threads, and compiled code in one, in paired rounds.

    Args:
        bench: The bench.
        threads: The threads.
        served: The model, compiled and called.

    Returns:
        Figures by name. Ratios compare the rounds pair by pair: ``throughput_ratio`` is compiled
        calls a second over eager's, ``p95_ratio`` compiled code's 95th percentile over eager's.
    """
    eager = _Side(served.eager, served.eager_calls, threads.count)
    compiled = _Side(served.compiled, served.calls, threads.count)
    alone = _Side(served.compiled, served.calls, 1)
    sides = (eager, compiled, alone)
    with bench.progress.alone():
        busy = _take_rounds(bench, threads, sides)
    throughput = paired_speedup(eager.call_ns, compiled.call_ns)
    p95 = paired_speedup(compiled.p95_ns, eager.p95_ns)
    return {
        "eager_calls_per_s": 1e9 / statistics.median(eager.call_ns),
        "compiled_calls_per_s": 1e9 / statistics.median(compiled.call_ns),
        "eager_p95_ms": statistics.median(eager.p95_ns) / 1e6,
        "compiled_p95_ms": statistics.median(compiled.p95_ns) / 1e6,
        "throughput_ratio": throughput.value,
        "throughput_low_ratio": throughput.low,
        "throughput_high_ratio": throughput.high,
        "p95_ratio": p95.value,
        "p95_low_ratio": p95.low,
        "p95_high_ratio": p95.high,
        "threads_ratio": paired_speedup(alone.call_ns, compiled.call_ns).value,
        "calls_busy_share": busy,
    }


def _take_rounds(bench: Bench, threads: CallingThreads, sides: Sequence[_Side]) -> float:
    """Time all sides, eager and compiled first; return the share of the processor others took."""
    budget_s = min(_ROUNDS_S, bench.request.timing_budget_s)
    for side in sides:
        side.take_round(threads, 2)
    slowest_ns = max(side.call_ns[-1] * side.threads for side in sides)
    affordable = int(budget_s * 1e9 / (len(sides) * FEWEST_ROUNDS * slowest_ns))
    calls = min(max(affordable, _FEWEST_CALLS), _MOST_CALLS)
    for side in sides:
        side.forget_rounds()
    order, others = random.Random(bench.request.seed), OtherProcesses()
    schedule = OwnRounds(0.0, time.monotonic() + budget_s)
    while schedule.has_next((sides[0].call_ns, sides[1].call_ns), (), None):
        bench.progress.beat()
        for side in order.sample(sides, len(sides)):
            side.take_round(threads, calls)
    return others.share()
