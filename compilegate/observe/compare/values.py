"""Compare named values: integers and objects exactly, floating tensors by their errors."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from compilegate.observe import nested
from compilegate.observe.compare import decisions, exact
from compilegate.observe.compare.error_figures import ErrorFigures
from compilegate.observe.compare.errors import are_slices_in_doubt, is_in_doubt, tensor_errors
from compilegate.observe.compare.nearest_reference import Nudge, Sides
from compilegate.observe.compare.pooled_errors import pooled_errors
from compilegate.observe.model.equality import equal_objects
from compilegate.records.call import SHAPE, Checked, Decision, Difference
from compilegate.records.rounding import pooled_noise

#: If eager runs disagree on more integers than these, their spread is the noise. Compiled code must
#: decide so few like one of the runs.
FEW_TIES = 4
#: If all tensors together err more than eager by this factor, nudged runs show how much is chance.
#: It is below the factor that the suites allow (:mod:`compilegate.judging.pooled`).
DOUBT_AS_A_WHOLE = 1.04
#: Numbers of Python that are as close are equal: Dynamo simplifies formulas of sizes.
_PYTHONS_ROUNDING = 1e-12
#: The known result before the first comparison.
NOTHING_KNOWN = Checked()


def compare_values(
    eager: Mapping[str, Any],
    compiled: Mapping[str, Any],
    references: Sequence[Mapping[str, Any]],
    samples: Sequence[tuple[Mapping[str, Any], Nudge]] = (),
    *,
    half: bool = False,
    by_rows: bool = False,
    by_slices: bool = False,
    known: Checked = NOTHING_KNOWN,
) -> Checked:
    """Compare the values of one call.

    Args:
        eager: The values of eager, by name.
        compiled: Those of compiled code.
        references: Those of the reference and its alternative.
        samples: Those of nudged eager runs, each with its nudge.
        half: Whether the case computes in half precision.
        by_rows: Whether to examine rows and columns, too.
        by_slices: Whether to examine slices along each dimension, too.
        known: The result of the same comparison with fewer samples.
    """
    differences: list[Difference] = []
    floating: list[Sides] = []
    decided: list[Decision | None] = []
    ties = 0
    for name in (*eager, *(extra for extra in compiled if extra not in eager)):
        ours, theirs = eager.get(name), compiled.get(name)
        if isinstance(ours, float) and isinstance(theirs, float):
            ours, theirs = _numbers(ours, theirs, [truth.get(name) for truth in references])
        if not (isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor)):
            if not equal_objects(ours, theirs):
                differences.append(
                    exact.difference(name, "value", exact.brief(ours), exact.brief(theirs))
                )
            continue
        if not name.startswith("output"):  # compare_layouts compares those of outputs
            differences += exact.unlike(name, ours, theirs)
        if ours.shape != theirs.shape or ours.is_complex() != theirs.is_complex():
            continue
        others = [(_like(ours, sample.get(name)), nudge) for sample, nudge in samples]
        truths = [_like(ours, reference.get(name)) for reference in references]
        sides = Sides(
            name,
            ours,
            theirs.to(ours.device),
            references=[truth for truth in truths if truth is not None],
            samples=[(other, nudge) for other, nudge in others if other is not None],
            half=half,
            by_rows=by_rows,
            by_slices=by_slices,
        )
        if ours.is_floating_point() or ours.is_complex():
            floating.append(sides)
            continue
        difference, tied, decision = _compare_integers(sides)
        ties += tied
        decided.append(decision)
        if difference is not None:
            differences.append(difference)
        elif tied > FEW_TIES:
            floating.append(_of_undecided(sides))
    errors = tensor_errors(floating, {error.name: error for error in known.errors})
    by_name = {error.name: error for error in errors}
    decided += [decisions.of_floats(s, by_name[s.name]) for s in floating if s.name in by_name]
    whole = {error.name for error in errors if error.numel == _numel(eager[error.name])}
    for sides in floating:
        if sides.name not in whole:
            differences += exact.nonfinite(
                sides.name, sides.eager, sides.compiled, sides.references
            )
    return Checked(
        tensors=len(eager),
        differences=tuple(differences),
        errors=tuple(errors),
        ties=ties,
        decisions=tuple(decision for decision in decided if decision is not None),
        pooled=pooled_errors(floating, errors) if half else None,
    )


def _numbers(ours: float, theirs: float, truths: Sequence[Any]) -> tuple[Any, Any]:
    """Return two numbers of Python as they are compared: exactly, or as tensors.

    Where the reference has the very same number, Python alone computed it. Otherwise it may be an
    element of a tensor, which eager has computed in single precision.
    """
    if not (truths and all(equal_objects(ours, truth) for truth in truths)):
        return torch.tensor(ours), torch.tensor(theirs)
    return ours, ours if math.isclose(ours, theirs, rel_tol=_PYTHONS_ROUNDING) else theirs


def _compare_integers(sides: Sides) -> tuple[Difference | None, int, Decision | None]:
    """Compare integers or booleans exactly.

    Returns:
        The difference where all eager runs agree, or where few disagree and none gives the answer
        of compiled code. Then the number of other differing elements, and what eager and the
        reference decide alike among them.
    """
    ours, theirs = sides.eager, sides.compiled.to(sides.eager)
    if torch.equal(ours, theirs):
        return None, 0, None
    unequal = ours != theirs
    undecided = functools.reduce(
        torch.logical_or,
        (ours != other for other, _ in sides.samples),
        torch.zeros_like(unequal),
    )
    tied = unequal & undecided
    if bool(tied.any()) and int(tied.sum()) <= FEW_TIES:
        samples = [sample[tied] for sample, _ in sides.samples]
        tied[tied.clone()] = decisions.answered(ours[tied], theirs[tied], samples)
    wrong = unequal & ~tied
    difference = None
    if bool(wrong.any()):
        difference = exact.mismatches(sides.name, ours, sides.compiled, wrong)
    return difference, int(tied.sum()), decisions.of_integers(sides, tied)


def _numel(value: Any) -> int:
    """The number of real numbers in a value. A complex one counts as two."""
    return nested.real(value).numel() if isinstance(value, torch.Tensor) else 1


def _of_undecided(sides: Sides) -> Sides:
    """Return sides for integers that vary between eager runs: their spread is the noise."""
    return Sides(
        sides.name,
        sides.eager.double(),
        sides.compiled.double(),
        references=[truth.double() for truth in sides.references],
        samples=[(sample.double(), Nudge(1.0, 1.0)) for sample, _ in sides.samples],
        always=True,
        dtype=sides.eager.dtype,
    )


def _like(ours: torch.Tensor, other: Any) -> torch.Tensor | None:
    """Return the value of another run as a tensor; None unless it has the same shape and kind."""
    if isinstance(other, float):
        other = torch.tensor(other, dtype=torch.float64)
    comparable = (
        isinstance(other, torch.Tensor)
        and other.shape == ours.shape
        and other.is_complex() == ours.is_complex()
    )
    return other if comparable else None


def is_doubtful(checked: Checked, *, half: bool = False) -> bool:
    """Whether the errors of compiled code call for a better estimate of eager's noise."""
    pooled = pooled_noise(checked.errors)
    return decides_otherwise(checked) or any(
        are_slices_in_doubt(e)
        or is_in_doubt(
            ErrorFigures.recorded(e, "eager").at_least(pooled),
            ErrorFigures.recorded(e, "compiled"),
            e.dtype,
            half=half,
        )
        for e in checked.errors
    )


def decides_otherwise(checked: Checked) -> bool:
    """Whether compiled code has an exact answer that no eager run has given so far."""
    return any(one.what in ("elements", SHAPE) for one in checked.differences) or any(
        one.answered < one.elements for one in checked.decisions
    )


def agree(against: Sequence[Checked], checked: Sequence[Checked], *, half: bool = False) -> bool:
    """Whether compiled code agrees with another eager run as far as eager's noise allows.

    Args:
        against: Compiled code, compared with that run.
        checked: The same groups of values, compared with eager. They have eager's noise.
        half: Whether the case computes in half precision.
    """
    for run, known in zip(against, checked, strict=True):
        if decides_otherwise(run):
            return False
        noise, pooled = {one.name: one for one in known.errors}, pooled_noise(known.errors)
        for error in run.errors:
            if error.name not in noise:
                continue
            eager = ErrorFigures.recorded(noise[error.name], "eager").at_least(pooled)
            compiled = ErrorFigures.recorded(error, "compiled")
            if is_in_doubt(eager, compiled, error.dtype, half=half):
                return False
    return True


def is_doubtful_as_a_whole(checked: Checked) -> bool:
    """Whether all tensors in half precision together err more than eager, for unknown chance."""
    return (
        checked.pooled is not None
        and not checked.pooled.nudged
        and checked.pooled.ratio > DOUBT_AS_A_WHOLE
    )
