"""The largest error of compiled code in a case: one figure for many tensors."""

from __future__ import annotations

from typing import Literal

from compilegate.records.observation import Observation
from compilegate.runs.slim import SlimObservation

#: Tensors that eager itself computes with a larger error are left out.
ILL_CONDITIONED = 0.1


def worst_error(
    measured: Observation | SlimObservation, group: Literal["outputs", "gradients"]
) -> float | None:
    """Return the largest root mean square error of a group of tensors, relative to its scale.

    Args:
        measured: The case.
        group: Which tensors.

    Returns:
        The error; None where no tensor of the group was compared.
    """
    checked = (getattr(call, group) for call in measured.calls)
    return max(
        (
            error.compiled_rms
            for found in checked
            for error in found.errors
            if error.scale and error.eager_rms <= ILL_CONDITIONED
        ),
        default=None,
    )
