"""The bound on a wrong scale that one tensor in half precision has in all calls of a case.

The rounding errors of one call may look like a scale that is a per cent too large. Those of other
calls then look like other scales, and their mean is near zero. A wrong factor is in all calls.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from compilegate.judging.over_calls import CHANCE, FEWEST_CALLS, counted
from compilegate.records.call import TensorError
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.rounding import EPS
from compilegate.records.statistics import t_quantile

#: How many times eager's own mean scale error compiled code may reach, beyond chance.
OF_EAGER = 3.0
#: The scale error of a constant that is rounded in compiled code alone, in units of the format.
OF_UNIT = 1 / 16
#: A scale is chance unless it lies outside of an interval with this coverage.
COVERAGE = 0.9998

_DTYPE = {"bf16": "bfloat16", "f16": "float16"}


@dataclass(frozen=True)
class ScaleOverCalls:
    """The scale error of one tensor, its mean over all calls of a case, and its bound.

    Attributes:
        error: The tensor in the first of the calls.
        seen: The mean of compiled code: 0.01 is a scale that is 1% too large.
        eager: The mean of eager.
        allowed: The magnitude that is allowed.
        calls: The number of different calls.
    """

    error: TensorError
    seen: float
    eager: float
    allowed: float
    calls: int

    @property
    def text(self) -> str:
        """The error as a sentence."""
        direction = "large" if self.seen > 0 else "small"
        return (
            f"{self.error.name} ({self.error.dtype}): its scale over {self.calls} calls is too "
            f"{direction} by {abs(self.seen):.3g} of itself (eager {abs(self.eager):.3g}, "
            f"allowed {self.allowed:.3g})"
        )


def scales_over_calls(observation: Observation, group: str) -> Iterator[ScaleOverCalls]:
    """Yield the scale error of each tensor of ``outputs`` or ``gradients`` over all calls.

    Args:
        observation: The case. There is none if it does not compute in half precision.
        group: The group of tensors.
    """
    case = Case.parse(observation.case)
    if not case.computes_in_half:
        return
    rounding = CHANCE * OF_UNIT * EPS[_DTYPE[case.computes_in]]
    by_name: dict[str, dict[float, TensorError]] = {}
    for error in counted(observation, group):
        # The same input again is no further evidence.
        by_name.setdefault(error.name, {}).setdefault(round(error.compiled_projection, 9), error)
    for distinct in by_name.values():
        if len(distinct) < FEWEST_CALLS:
            continue
        first, *_ = distinct.values()
        compiled = [one.compiled_projection for one in distinct.values()]
        eager = [one.eager_projection for one in distinct.values()]
        spread = max(map(statistics.stdev, (compiled, eager))) / math.sqrt(len(distinct))
        chance = t_quantile(COVERAGE, len(distinct) - 1) * spread
        own = statistics.fmean(eager)
        yield ScaleOverCalls(
            first,
            seen=statistics.fmean(compiled),
            eager=own,
            allowed=OF_EAGER * abs(own) + math.hypot(chance, rounding),
            calls=len(distinct),
        )
