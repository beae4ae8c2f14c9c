"""Finds models whose right answers are others than before: what PyTorch promises has changed.

Within one version, compiled code is compared with eager and with the reference. An operator that
means something else now, such as another default of a function, changes all three alike. With one
seed, one recipe and the same sizes, the reference has the same outputs under both versions,
whatever the processor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compilegate.runs.slim import SlimObservation
from compilegate.upgrade.verdict_changes import EAGER, Change, Effect

#: Outputs whose root mean square differs by this share are others. That of a reference in float64
#: was the same to the last digit in all healthy pairs, also of 2.14.1 and 2.15.0.
_FAR = 0.01
_OTHER = "eager and the reference give other numbers than before"


def other_numbers(then: SlimObservation, now: SlimObservation, effect: Effect) -> Iterator[Change]:
    """Find the first output that the reference computes differently.

    Args:
        then: The case under the version in use.
        now: The case under the version that may replace it.
        effect: What it means. Other random numbers, weights or kernels with another meaning are no
            fault, and no proof of health.
    """
    for index, (earlier, call) in enumerate(zip(then.calls, now.calls, strict=False)):
        known = {one.name: one.scale for one in earlier.outputs.errors if one.has_reference}
        for tensor in call.outputs.errors:
            before = known.get(tensor.name, tensor.scale)
            if tensor.has_reference and not _is_same(before, tensor.scale):
                yield Change(
                    EAGER,
                    effect,
                    f"{_OTHER}: {tensor.name} at call {index + 1}: root mean square "
                    f"{before:.3g} → {tensor.scale:.3g}; an operator, its default or the random "
                    "numbers changed",
                )
                return


def is_of_other_numbers(change: Change) -> bool:
    """Whether a change is of right answers that are others than before."""
    return change.aspect == EAGER and change.text.startswith(_OTHER)


def _is_same(before: float, now: float) -> bool:
    both_nan = math.isnan(before) and math.isnan(now)
    return both_nan or math.isclose(before, now, rel_tol=_FAR)
