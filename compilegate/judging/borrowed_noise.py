"""The noise of a tensor in other calls, where a call has no reference and could not be sampled.

An eager run is sampled again only if it repeats, and if memory suffices. Without either, nothing
says how far eager is from the truth in this call. It is as far as in the other calls of the case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from compilegate.records.call import Checked, TensorError

#: The figures of eager's noise, all relative to the scale of a tensor.
_OF_EAGER = (
    *("eager_max", "eager_rms", "eager_quantile", "eager_column"),
    *("eager_rows", "eager_high_rows"),
)


def with_noise(groups: Sequence[tuple[str, Checked]]) -> list[tuple[str, Checked]]:
    """Return the groups, in which each tensor without known noise has the most of other groups."""
    known: dict[str, TensorError] = {}
    for error in _errors(groups):
        if error.samples and not error.has_reference:
            other = known.get(error.name)
            if other is None or other.eager_rms < error.eager_rms:
                known[error.name] = error

    def completed(error: TensorError) -> TensorError:
        other = known.get(error.name)
        if other is None or error.samples or error.has_reference:
            return error
        figures = {name: max(getattr(error, name), getattr(other, name)) for name in _OF_EAGER}
        return replace(error, samples=other.samples, jumps=other.jumps, **figures)

    return [
        (name, replace(checked, errors=tuple(map(completed, checked.errors))))
        for name, checked in groups
    ]


def _errors(groups: Iterable[tuple[str, Checked]]) -> Iterable[TensorError]:
    return (error for _, checked in groups for error in checked.errors)
