"""The noise of a tensor in other calls, where one call does not show it.

An eager run is sampled again only if it repeats, and if memory suffices. Without either, and
without a reference, nothing says how far eager is from the truth in this call. It is as far as in
the other calls of the case. Samples alone do not show what all eager runs have in common, such as
statistics that a kernel sums in half precision. The reference of another call does.

A tensor of few elements in half precision, such as a loss, may be near the truth by chance. Its
noise is that of all its calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
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


def with_noise(
    groups: Sequence[tuple[str, Checked]], extreme: Container[int] = ()
) -> list[tuple[str, Checked]]:
    """Return the groups, in which each tensor without known noise has the most of other groups.

    Args:
        groups: The comparisons, by the names of their calls.
        extreme: The numbers of those with extreme inputs. What eager errs there lends nothing.
    """
    sampled: dict[str, TensorError] = {}
    referred: dict[str, TensorError] = {}
    for number, (_, checked) in enumerate(groups):
        for error in checked.errors:
            if error.samples and not error.has_reference:
                _keep_larger(sampled, error)
            elif error.has_reference and error.eager_own <= _LARGEST and number not in extreme:
                _keep_larger(referred, error)

    def completed(error: TensorError) -> TensorError:
        if error.has_reference:
            return error
        if error.samples:
            return _at_least(error, referred.get(error.name))
        other = sampled.get(error.name)
        if other is None:
            return error
        return replace(_at_least(error, other), samples=other.samples, jumps=other.jumps)

    return _changed(groups, completed)


def _keep_larger(known: dict[str, TensorError], error: TensorError) -> None:
    other = known.get(error.name)
    if other is None or other.eager_rms < error.eager_rms:
        known[error.name] = error


def _at_least(error: TensorError, other: TensorError | None) -> TensorError:
    """Return an error with at least the noise of another one."""
    if other is None:
        return error
    figures = {name: max(getattr(error, name), getattr(other, name)) for name in _OF_EAGER}
    projection = max(error.eager_projection, other.eager_projection, key=abs)
    return replace(error, eager_projection=projection, **figures)


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


def stepped_by_noise(errors: Iterable[TensorError]) -> frozenset[str]:
    """Return the parameters whose gradients are rounding errors alone in eager.

    That of a bias before a batch norm is zero, for example. How far the step moves the parameter
    depends on how often code rounds.
    """
    # Where the reference is zero, the error is absolute. A gradient of exactly zero has no noise.
    blind = (one.name for one in errors if one.eager_rms > (1.0 if one.scale else 0.0))
    return frozenset(
        f"parameter {name.removeprefix('gradient ')}"
        for name in blind
        if name.startswith("gradient ")
    )


def with_noise_of_steps(groups: Sequence[tuple[str, Checked]]) -> list[tuple[str, Checked]]:
    """Return the groups, in which parameters that noise steps may jump."""
    found = []
    for name, checked in groups:
        stepped = stepped_by_noise(checked.errors)
        errors = (replace(e, jumps=True) if e.name in stepped else e for e in checked.errors)
        found.append((name, replace(checked, errors=tuple(errors))))
    return found


def _changed(
    groups: Iterable[tuple[str, Checked]], completed: Callable[[TensorError], TensorError]
) -> list[tuple[str, Checked]]:
    return [
        (name, replace(checked, errors=tuple(map(completed, checked.errors))))
        for name, checked in groups
    ]


def _errors(groups: Iterable[tuple[str, Checked]]) -> Iterable[TensorError]:
    return (error for _, checked in groups for error in checked.errors)
