"""The noise of a tensor in other calls, where one call does not show it.

An eager run is sampled again only if it repeats, and if memory suffices. Without either, and
without a reference, nothing says how far eager is from the truth in this call. It is as far as in
the other calls of the case.

A tensor of few elements in half precision, such as a loss, may be near the truth by chance. Its
noise is that of all its calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from compilegate.records.call import Checked, TensorError

#: The figures of eager's noise, all relative to the scale of a tensor.
_OF_EAGER = (
    *("eager_max", "eager_rms", "eager_quantile", "eager_column"),
    *("eager_rows", "eager_high_rows"),
)

#: A tensor of up to this many elements has the noise of all its calls, from this number on.
_FEW_ELEMENTS, _FEWEST_CALLS = 8, 3
#: Noise of more than this share of the scale is no rounding, but a jump of one call.
_LARGEST = 0.03


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

    return _changed(groups, completed)


def with_noise_of_all_calls(groups: Sequence[tuple[str, Checked]]) -> list[tuple[str, Checked]]:
    """Return the groups, in which each tensor of few elements has at least its mean noise."""
    own: dict[str, list[float]] = {}
    for error in _errors(groups):
        few = 0 < error.numel <= _FEW_ELEMENTS
        if few and error.has_reference and error.eager_own <= _LARGEST:
            own.setdefault(error.name, []).append(error.eager_own)
    noise = {
        name: math.sqrt(sum(one**2 for one in seen) / len(seen))
        for name, seen in own.items()
        if len(seen) >= _FEWEST_CALLS
    }

    def completed(error: TensorError) -> TensorError:
        least = noise.get(error.name, 0.0)
        if least <= error.eager_rms:
            return error
        figures = {name: max(getattr(error, name), least) for name in ("eager_max", "eager_rms")}
        return replace(error, **figures)

    return _changed(groups, completed)


def _changed(
    groups: Iterable[tuple[str, Checked]], completed: Callable[[TensorError], TensorError]
) -> list[tuple[str, Checked]]:
    return [
        (name, replace(checked, errors=tuple(map(completed, checked.errors))))
        for name, checked in groups
    ]


def _errors(groups: Iterable[tuple[str, Checked]]) -> Iterable[TensorError]:
    return (error for _, checked in groups for error in checked.errors)
