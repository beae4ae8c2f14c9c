"""Further samples of eager's own error, taken where compiled code errs more than eager did.

Eager's one run shows one draw of its rounding error. Where a model amplifies rounding (a maximum
that is nearly a tie, a batch norm over few values, an expert chosen by a hair) another draw may be
far off, and compiled code, which rounds elsewhere, is one. So where it is further off than eager,
eager runs again on inputs and parameters nudged by a rounding error; the largest error of
these runs is the noise. If that does not explain it, larger nudges follow: what jumps then (a ReLU
that opens, a maximum that moves) may have jumped in compiled code too, and counts in full; what
only grows with the nudge counts as if the nudge were one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compilegate.observe.compare.errors import Nudge
from compilegate.observe.model.calls import PlannedCall, input_tensors
from compilegate.observe.model.result import Result
from compilegate.observe.model.seeding import factors
from compilegate.observe.model.subject import Subject

#: Further runs at each size of nudge.
SAMPLES = 4
#: The size of a rounding error, relative, in what the case computes in.
_UNIT = {"f32": 2.0**-23, "bf16": 2.0**-9, "f16": 2.0**-12}
#: Sizes of the nudge in such units, one after the other while doubt remains.
NUDGES = {"f32": (1, 8, 64), "bf16": (1, 2), "f16": (1, 4)}
#: Far from the seeds of weights and inputs: nudges drawn from the same numbers all push one way.
_FIRST_SEED = 2_000_003


@dataclass(frozen=True)
class Sample:
    """A nudged run of an eager call, and the size of the nudge."""

    result: Result
    nudge: Nudge


class Sampler:
    """Repeats eager calls, nudged, on a module of their own.

    Args:
        build: Builds the eager model.
    """

    def __init__(self, build: Callable[[], Subject]) -> None:
        self._build = build
        self._subject: Subject | None = None

    def samples(
        self, planned: PlannedCall, eager: Subject, result: Result, nudge: float
    ) -> list[Sample]:
        """Nudged runs of a call; none where the call cannot be repeated.

        Args:
            planned: The call.
            eager: The eager subject; its parameters are those that the call was made with, but for
                what the call wrote.
            result: The result that it gave. A repetition that is not nudged must give the same, or
                the call depends on more than is known here.
            nudge: Its size, in units in the last place.
        """
        if eager.example.calls:
            return []  # their arguments and actions are not to be used twice
        try:
            repeated = self._repeat(planned, eager, result, 0.0)
            if not _repeats(repeated.output, result.output):
                return []
            unit = _UNIT[eager.case.precision]
            size = Nudge(nudge, nudge * unit / _UNIT["f32"])
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
        amount = nudge * _UNIT[subject.case.precision]
        generator = torch.Generator(subject.case.device).manual_seed(_FIRST_SEED + seed)
        parameters, theirs = subject.parameters(), eager.parameters()
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(known.started.get(name, theirs[name]))
            for name, buffer in subject.buffers().items():
                buffer.copy_(known.before[f"buffer {name}"])
            for tensor in (*parameters.values(), *input_tensors(call).values()):
                if nudge and tensor.is_floating_point():
                    tensor.mul_(factors(tensor, amount, generator))
        result = subject.call(call, planned.index)
        if result.error is not None:
            raise result.error
        return result


def _repeats(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether two outputs are alike but for what atomic additions may change on a GPU."""
    return ours.keys() == theirs.keys() and all(
        leaf.shape == theirs[name].shape
        and float((leaf - theirs[name]).double().nan_to_num().norm())
        <= 0.01 * float(leaf.double().nan_to_num().norm())
        for name, leaf in ours.items()
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    )
