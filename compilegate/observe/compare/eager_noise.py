"""Sample eager's own error again where compiled code errs more than eager.

One eager run shows one draw of its rounding error. Some models amplify rounding: a maximum is
nearly a tie, a batch norm has few values, two experts have nearly the same score. Another draw may
then err far more. Compiled code rounds in other places, so it is such a draw.

If compiled code errs more than eager, eager runs again on inputs and parameters that are nudged by
a rounding error. The largest error of these runs is the noise. If it does not explain the error of
compiled code, larger nudges follow. An error that jumps (a ReLU opens, a maximum moves) may have
jumped in compiled code, too, and counts in full. An error that grows with the nudge is divided by
the nudge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compilegate.observe.compare.errors import Nudge
from compilegate.observe.model import cast_weights
from compilegate.observe.model.calls import PlannedCall, input_tensors
from compilegate.observe.model.restarting import start_as
from compilegate.observe.model.result import Result
from compilegate.observe.model.seeding import factors
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case

#: The number of runs at each size of the nudge.
SAMPLES = 4
#: The relative size of a rounding error, by the number format that a case computes in.
UNIT = {"f32": 2.0**-23, "bf16": 2.0**-9, "f16": 2.0**-12}
#: The sizes of the nudge in such units, tried in this order while the error is not explained.
NUDGES = {"f32": (1, 8, 64), "bf16": (1, 2), "f16": (1, 4)}
#: The sizes for weights in half precision. The nudged weights are rounded again: nudged by one
#: unit, all keep their values.
_NUDGES_OF_HALVES = (2, 4)
#: It is far from the seeds of weights and inputs. With the same random numbers, all nudges would
#: push in one direction.
_FIRST_SEED = 2_000_003


def nudges_of(case: Case) -> tuple[int, ...]:
    """Return the sizes of the nudge for a case, in the order in which they are tried."""
    return _NUDGES_OF_HALVES if cast_weights.half(case) else NUDGES[case.computes_in]


@dataclass(frozen=True)
class Sample:
    """A nudged run of an eager call.

    Attributes:
        result: The result of the run.
        nudge: The size of the nudge.
    """

    result: Result
    nudge: Nudge


class Sampler:
    """Repeats eager calls with nudges, on a separate module.

    Args:
        build: Builds the eager model.
    """

    def __init__(self, build: Callable[[], Subject]) -> None:
        self._build = build
        self._subject: Subject | None = None

    def samples(
        self, planned: PlannedCall, eager: Subject, result: Result, nudge: float
    ) -> list[Sample]:
        """Return nudged runs of a call; none if the call cannot be repeated.

        Args:
            planned: The call.
            eager: The eager subject. Its parameters are those of the call, except where the call
                wrote to them.
            result: The result of the call. A repetition without a nudge must return the same:
                otherwise the call depends on unknown state.
            nudge: The size of the nudge, in units in the last place.
        """
        if eager.example.calls:
            return []  # their arguments and actions must not be used twice
        try:
            repeated = self._repeat(planned, eager, result, 0.0)
            if not repeats(repeated.output, result.output):
                return []
            unit = UNIT[eager.case.computes_in]
            size = Nudge(nudge, nudge * unit / UNIT["f32"])
            return [
                Sample(self._repeat(planned, eager, result, nudge, seed), size)
                for seed in range(SAMPLES)
            ]
        except Exception:
            return []

    def _repeat(
        self, planned: PlannedCall, eager: Subject, known: Result, nudge: float, seed: int = 0
    ) -> Result:
        self._subject = subject = self._subject or self._build()
        call = subject.prepare(planned)
        amount = nudge * UNIT[subject.case.computes_in]
        generator = torch.Generator(subject.case.device).manual_seed(_FIRST_SEED + seed)
        start_as(subject, eager, known)
        with torch.no_grad():
            for tensor in (*subject.parameters().values(), *input_tensors(call).values()):
                if nudge and tensor.is_floating_point() and not _overlaps_itself(tensor):
                    tensor.mul_(factors(tensor, amount, generator))
        result = subject.call(call, planned.index)
        if result.error is not None:
            raise result.error
        return result


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether elements share their memory for certain, so that PyTorch writes nothing in place."""
    return torch._debug_has_internal_overlap(tensor) == 1


def repeats(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether two outputs are nearly equal. Atomic additions may change them slightly on a GPU."""
    return ours.keys() == theirs.keys() and all(
        leaf.shape == theirs[name].shape
        and float((leaf - theirs[name]).double().nan_to_num().norm())
        <= 0.01 * float(leaf.double().nan_to_num().norm())
        for name, leaf in ours.items()
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    )
