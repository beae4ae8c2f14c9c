"""Times two compiled models of one case against each other."""

from __future__ import annotations

from compilegate.observe.device import device as device_of
from compilegate.observe.measure.rounds import paired_rounds
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases import costs
from compilegate.observe.practices.bench import Bench
from compilegate.records.performance import Timing
from compilegate.records.statistics import Interval, paired_speedup

#: Seconds for the rounds of one comparison.
_ROUNDS_S = 3.0


def measure(bench: Bench, usual: Subject, other: Subject) -> tuple[Timing, Interval]:
    """Time calls of both in paired rounds.

    Args:
        bench: The bench.
        usual: The model that the other one is compared with. It takes the place of eager.
        other: The other one. It takes the place of compiled code.

    Returns:
        The rounds, and how many times as many calls a second the other model makes.
    """
    device = device_of(usual.case.device)
    steps = costs.prepare(usual, other, bench.planned, device)
    with bench.progress.alone(), bench.progress.spend("run"):
        timing = paired_rounds(
            steps.eager,
            steps.compiled,
            device=device,
            seed=bench.request.seed,
            threshold=0.0,  # the fewest rounds: the interval says how much they show
            budget_s=min(_ROUNDS_S, bench.request.timing_budget_s),
            beat=bench.progress.beat,
            shares_gpu=bench.request.shares_gpu,
        )
    return timing, paired_speedup(timing.eager_ns, timing.compiled_ns)
