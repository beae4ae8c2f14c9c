"""Compare the parameters of compiled code with those of eager and of the reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import torch

from compilegate.observe.compare import exact
from compilegate.observe.compare.errors import is_settled
from compilegate.observe.compare.nearest_reference import Nudge
from compilegate.observe.compare.values import compare_values
from compilegate.observe.model.equality import is_same
from compilegate.records.call import Checked, TensorError

#: Parameters by name after nudged eager runs, each with its nudge.
Runs = Sequence[tuple[Mapping[str, torch.Tensor], Nudge]]

#: Steps shorter than this many units of a parameter's rounding are lost in it.
_SWALLOWED = 16.0


def compare_parameters(
    initial: Mapping[str, torch.Tensor],
    eager: Mapping[str, torch.Tensor],
    compiled: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    *,
    samples: Callable[[Collection[str]], Runs] = lambda names: (),
    stepped: Collection[str] = (),
    half: bool = False,
) -> Checked:
    """Compare the changes of parameters since the model was built.

    Args:
        initial: The parameters as built, by name.
        eager: The current parameters of the eager model.
        compiled: The current parameters of the compiled model.
        expected: The current parameters of the reference; empty if there is none.
        samples: Returns the parameters with some names after nudged eager runs. All parameters
            after all runs may be larger than the memory.
        stepped: The names of parameters that a step or the model wrote to, even if they stayed the
            same.
        half: Whether the case computes in half precision.
    """
    known = {n: value for n, value in initial.items() if _is_still_there(value, eager.get(n))}
    moved = {n for n, value in known.items() if n in stepped or not is_same(value, eager[n])}
    touched = [
        exact.touched(f"parameter {name}", value, compiled.get(name))
        for name, value in known.items()
        if name not in moved and not is_same(value, compiled.get(name))
    ]
    swallowed = {n for n in moved if _is_swallowed(initial[n], expected.get(n, eager[n]))}
    # A parameter that an action removed, added or replaced has no change: its value is compared.
    whole = swallowed | (eager.keys() | compiled.keys()) - known.keys()

    labels = {n: f"parameter {n}" if n in whole else f"update {n}" for n in moved | whole}

    def judged(side: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {
            labels[name]: value.detach() - (0 if name in whole else initial[name].to(value.dtype))
            for name, value in side.items()
            if name in labels
        }

    sides = judged(eager), judged(compiled), [judged(expected)] if expected else []
    found = compare_values(*sides, half=half)
    settled = {error.name for error in found.errors if is_settled(error, half=half)}
    runs = samples([name for name, label in labels.items() if label not in settled])
    if runs:
        moved_by = [(judged(run), nudge) for run, nudge in runs]
        found = compare_values(*sides, moved_by, half=half, known=found)
    errors = _with_rounding(found.errors, {f"update {n}": eager[n] for n in moved - whole})
    return replace(
        found,
        tensors=len(initial),
        differences=(*touched, *found.differences),
        errors=errors,
    )


def _with_rounding(
    errors: Sequence[TensorError], stepped: Mapping[str, torch.Tensor]
) -> tuple[TensorError, ...]:
    """Note one unit in the last place of each parameter that was stepped: so far a step is rounded.

    The reference may be rounded as eager is, which hides that: a gradient that differs by rounding
    alone rounds a few elements the other way.
    """
    units = {}
    for name, value in stepped.items():
        most = (
            float(value.detach().abs().max())
            if value.is_floating_point() and value.numel()
            else 0.0
        )
        if 0.0 < most < math.inf:
            units[name] = torch.finfo(value.dtype).eps * 2.0 ** math.floor(math.log2(most))
    return tuple(
        replace(error, unit=units[error.name] / error.scale)
        if error.name in units and error.scale
        else error
        for error in errors
    )


def _is_still_there(before: torch.Tensor, now: torch.Tensor | None) -> bool:
    return now is not None and before.shape == now.shape


def _is_swallowed(initial: torch.Tensor, now: torch.Tensor) -> bool:
    """Whether a parameter moved so little that its rounding hides the step."""
    if not initial.is_floating_point():
        return False
    moved = float((now.detach().double() - initial.double()).norm())
    return moved < _SWALLOWED * torch.finfo(initial.dtype).eps * float(initial.double().norm())
