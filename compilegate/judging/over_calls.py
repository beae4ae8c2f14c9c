"""The bound on the error of one tensor in half precision over all calls of a case.

Where one of many tensors is a little less exact, its bound in each call has room for that, and the
other tensors hide it in the pooled error. Many calls show it: the ratio of compiled code's error to
eager's varies little between calls, and is at most 1 for nearly all tensors of healthy code.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from compilegate.judging.borrowed_noise import stepped_by_noise
from compilegate.records.call import TensorError, with_further
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.rounding import HALF_ERRORS, is_blind

#: By what factor compiled code may err more than eager in one tensor, beyond chance.
ONE_TENSOR = 1.2
#: What may be chance, in standard errors of the mean over calls.
CHANCE = 4.5
#: In how many different calls a tensor must show it.
FEWEST_CALLS = 4


@dataclass(frozen=True)
class OverCalls:
    """The error of one tensor over all calls of a case, and its bound.

    Attributes:
        error: The tensor in the first of the calls.
        seen: The error of compiled code as a multiple of eager's: the geometric mean over calls.
        allowed: The multiple that is allowed.
        calls: The number of different calls.
    """

    error: TensorError
    seen: float
    allowed: float
    calls: int

    @property
    def text(self) -> str:
        """The error as a sentence."""
        return (
            f"{self.error.name} ({self.error.dtype}): its error over {self.calls} calls is "
            f"{self.seen:.3g} times eager's (allowed {self.allowed:.3g}), "
            "as if compiled code computed or stored something in lower precision"
        )


def over_calls(observation: Observation, group: str) -> Iterator[OverCalls]:
    """Yield the error of each tensor of ``outputs`` or ``gradients`` over all calls.

    Args:
        observation: The case. There is none if it does not compute in half precision.
        group: The group of tensors.
    """
    if not Case.parse(observation.case).computes_in_half:
        return
    by_name: dict[str, dict[float, TensorError]] = {}
    for error in counted(observation, group):
        # The same input again is no further evidence.
        by_name.setdefault(error.name, {}).setdefault(round(_log_ratio(error), 6), error)
    known = {name: seen for name, seen in by_name.items() if len(seen) >= FEWEST_CALLS}
    spreads = {name: statistics.stdev(seen) for name, seen in known.items()}
    usual = statistics.median(spreads.values()) if spreads else 0.0
    for name, seen in known.items():
        first, *_ = seen.values()
        # Few calls may vary little by chance. Of few elements, the error itself is chance.
        spread = max(spreads[name], usual, 1 / math.sqrt(min(one.numel for one in seen.values())))
        yield OverCalls(
            first,
            seen=math.exp(statistics.fmean(seen)),
            allowed=ONE_TENSOR * math.exp(CHANCE * spread / math.sqrt(len(seen))),
            calls=len(seen),
        )


def counted(observation: Observation, group: str) -> Iterator[TensorError]:
    """Yield the tensors of all calls whose errors are rounding errors of half precision."""
    for call in with_further(observation.calls, observation.probes):
        errors = getattr(call, group).errors
        noisy = stepped_by_noise(errors)
        yield from (one for one in errors if _counts(one) and one.name not in noisy)


def _counts(error: TensorError) -> bool:
    """Whether a tensor's error is a rounding error of half precision. A step adds up gradients."""
    own = error.eager_own or error.eager_rms  # older records have no such error
    is_known = error.has_reference and own >= HALF_ERRORS and error.compiled_rms > 0
    return is_known and not is_blind(error) and not error.name.startswith("update ")


def _log_ratio(error: TensorError) -> float:
    return math.log(error.compiled_rms / max(error.eager_rms, error.eager_own))
