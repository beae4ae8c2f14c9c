"""The bound on the errors of all calls and tensors of a case in half precision together.

Compiled code that computes as it should errs as much as eager, or less where it fuses operations.
A fault that makes each tensor a little less exact stays below the bounds of single tensors. The
pooled error has a bound that tightens with the evidence: it allows what compiled code may be worse
by, times what may be chance. Nudged eager runs show how much the pooled error of one call varies by
chance, and the calls how much it varies between inputs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from compilegate.records.call import Pooled, with_further
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.statistics import t_quantile

#: By what factor compiled code may err more than eager in all tensors together, beyond chance. The
#: second holds if eager's noise could not be sampled.
AS_A_WHOLE, UNSAMPLED = 1.06, 1.25
#: A factor is chance unless it lies outside of an interval with this coverage.
COVERAGE = 0.9998
#: Without samples, this many calls must show the same.
FEWEST_CALLS = 4


@dataclass(frozen=True)
class Whole:
    """The pooled error of all calls of a case, and its bound.

    Attributes:
        seen: The error of compiled code as a multiple of eager's.
        allowed: The multiple that is allowed.
        calls: The number of calls.
        tensors: The number of tensors in all calls.
        elements: Their elements.
    """

    seen: float
    allowed: float
    calls: int
    tensors: int
    elements: int

    @property
    def text(self) -> str:
        """The pooled error as a sentence."""
        return (
            f"the error of all {self.tensors} tensors over {self.calls} calls is "
            f"{self.seen:.3g} times eager's (allowed {self.allowed:.3g} for their "
            f"{self.elements} elements), "
            "as if compiled code computed or stored something in lower precision"
        )


def as_a_whole(observation: Observation, group: str) -> Whole | None:
    """Return the pooled error of ``outputs`` or ``gradients``; None if there is none to judge."""
    if not Case.parse(observation.case).computes_in_half:  # TF32: kernels may round otherwise
        return None
    found = [
        getattr(call, group).pooled for call in with_further(observation.calls, observation.probes)
    ]
    calls: list[Pooled] = [pooled for pooled in found if pooled is not None]
    if not calls:
        return None
    allowed = _allowed(calls)
    return Whole(
        seen=math.exp(statistics.fmean(math.log(call.ratio) for call in calls)),
        allowed=allowed,
        calls=len(calls),
        tensors=sum(call.tensors for call in calls),
        elements=sum(call.elements for call in calls),
    )


def _allowed(calls: Sequence[Pooled]) -> float:
    logs = [math.log(call.ratio) for call in calls]
    distinct = len({round(log, 6) for log in logs})  # the same input again is no further evidence
    between = statistics.variance(logs) if len(logs) > 1 else 0.0
    nudged = [[*map(math.log, call.nudged)] for call in calls if len(call.nudged) > 1]
    degrees = sum(len(runs) - 1 for runs in nudged)
    if not degrees:
        if distinct < FEWEST_CALLS:
            return math.inf
        chance = t_quantile(COVERAGE, distinct - 1) * math.sqrt(between / distinct)
        return UNSAMPLED * math.exp(chance)
    within = sum(statistics.variance(runs) * (len(runs) - 1) for runs in nudged) / degrees
    # Eager and compiled code are two draws.
    chance = t_quantile(COVERAGE, degrees) * math.sqrt((2 * within + between) / distinct)
    return AS_A_WHOLE * math.exp(chance)
