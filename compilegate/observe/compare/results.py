"""Compares what one call did: compiled beside eager, both beside the fp64 reference.

Exact properties come first, between eager and compiled: nesting, shapes, dtypes, strides, aliasing,
where NaN and infinities are, integers and booleans. Then floating values, each tensor relative to
its own scale in fp64. Everything is a fact; what is allowed is for the suites to say.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._dynamo import exc

from compilegate.observe import error_text, nested
from compilegate.observe.compare import exact
from compilegate.observe.compare.eager_noise import Sample
from compilegate.observe.compare.error_figures import Figures
from compilegate.observe.compare.errors import Nudge, Sides, is_in_doubt, tensor_errors
from compilegate.observe.model.global_state import TURNED_BY_LOADING
from compilegate.observe.model.result import KEPT, OVERWRITTEN, Result
from compilegate.records.call import Checked, Difference
from compilegate.records.rounding import pooled_noise

#: Steps shorter than this many units of a parameter's rounding are lost in it.
_SWALLOWED = 16.0
#: So few integers may be decided in any way where eager itself is undecided: a tie of three.
FEW_TIES = 4
#: What is known before the first comparison.
_NOTHING = Checked()


def compare_outputs(
    eager: Result,
    compiled: Result,
    references: Sequence[Result],
    samples: Sequence[Sample] = (),
    *,
    half: bool = False,
    by_rows: bool = False,
    known: Checked = _NOTHING,
) -> Checked:
    """The outputs of one call.

    Args:
        eager: The eager call.
        compiled: The compiled call.
        references: The reference and its alternatives. Each tensor is held to the nearest to eager.
        samples: Nudged eager runs of the same call: see ``eager_noise``.
        half: Whether the case computes in half precision, or in as short a mantissa.
        by_rows: Whether rows and columns are looked at one by one.
        known: What was found before there were as many samples.
    """
    if (raised := _raised(eager, compiled)) is not None:
        return Checked(differences=(raised,))
    differences = [*compare_layouts(eager, compiled)]
    for path in eager.output.keys() - eager.layout.keys():  # arrays, which are tensors only here
        ours, theirs = eager.output[path], compiled.output.get(path)
        if isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor):
            differences += exact.unlike(path, ours, theirs)
    lost, gained = eager.aliases - compiled.aliases, compiled.aliases - eager.aliases
    if lost or gained:
        differences.append(exact.difference("output", "aliasing", _groups(lost), _groups(gained)))
    values = _compare_values(
        eager.output,
        compiled.output,
        [reference.output for reference in references],
        [(sample.result.output, sample.nudge) for sample in samples],
        half=half,
        by_rows=by_rows,
        known=known,
    )
    opaque = tuple(
        f"{path} ({type(leaf).__name__})"
        for path, leaf in eager.output.items()
        if not isinstance(leaf, (torch.Tensor, float, *exact.PLAIN))
    )
    return replace(values, differences=(*differences, *values.differences), opaque=opaque)


def compare_layouts(eager: Result, compiled: Result) -> tuple[Difference, ...]:
    """The outputs of one call, whatever their values: nesting, shapes, dtypes, strides and so on.

    Args:
        eager: The eager call.
        compiled: The compiled call.
    """
    differences = []
    if eager.nesting != compiled.nesting:
        differences.append(exact.difference("output", "structure", eager.nesting, compiled.nesting))
    for path, layout in eager.layout.items():
        other = compiled.layout.get(path, layout)
        differences += [
            exact.difference(path, what, layout[what], other[what])
            for what in layout
            if layout[what] != other[what]
        ]
    return tuple(differences)


def compare_gradients(
    eager: Result,
    compiled: Result,
    references: Sequence[Result],
    samples: Sequence[Sample] = (),
    *,
    half: bool = False,
    known: Checked = _NOTHING,
) -> Checked:
    """The gradients of one call: parameters and floating inputs.

    Where they overflowed on both sides, they are what no optimizer would use.
    """
    if eager.error is not None or compiled.error is not None or overflowed(eager, compiled):
        return Checked()
    return _compare_values(
        _named("gradient", eager.gradients),
        _named("gradient", compiled.gradients),
        [_named("gradient", reference.gradients) for reference in references],
        [(_named("gradient", s.result.gradients), s.nudge) for s in samples],
        half=half,
        known=known,
    )


def overflowed(eager: Result, compiled: Result) -> bool:
    """Whether scaled gradients overflowed on both sides; on one side only is a difference."""
    return eager.found_inf and compiled.found_inf


def compare_state(
    eager: Result,
    compiled: Result,
    references: Sequence[Result],
    samples: Sequence[Sample] = (),
    *,
    half: bool = False,
    known: Checked = _NOTHING,
) -> Checked:
    """The state after one call; what neither side changed is only counted.

    What eager leaves alone must be left alone to the last bit, however small it is, and where it
    is: others may share its memory. An earlier
    output of a CUDA graph may instead refuse to be read, but nothing else that a call left in the
    graph's memory, an attribute, say. Of a call that raises on both sides there are only the
    switches of the process: ``with`` turns these back in any case.
    """
    if (eager.error is None) != (compiled.error is None):
        return Checked()
    forgiven = {name for name, value in compiled.state.items() if _is_of_a_graph(name, value)}
    forgiven |= {name for name in TURNED_BY_LOADING if _has_changed(eager, name)}
    judged = [name for name in eager.state if name not in forgiven]
    changed = [n for n in judged if n in eager.written or _has_changed(eager, n)]
    touched = [
        exact.touched(name, compiled.before[name], compiled.state.get(name))
        for name in judged
        if name not in changed and _has_changed(compiled, name) and name in compiled.before
    ]
    touched += [
        exact.difference(name, what, "leaves it as it was", "changes it")
        for name, what in compiled.moved.items()
        if name in eager.stayed
    ]
    present = eager.state.keys() | compiled.before.keys()
    changed += [n for n in compiled.state if n not in present and not _is_private(n)]
    changed += [n for n in compiled.state if n in eager.before and n not in eager.state]

    def of(result: Result) -> dict[str, Any]:
        return {name: result.state[name] for name in changed if name in result.state}

    drawn = [(of(sample.result), sample.nudge) for sample in samples]
    values = _compare_values(
        of(eager), of(compiled), [*map(of, references)], drawn, half=half, known=known
    )
    tensors = sum(isinstance(value, torch.Tensor) for value in eager.state.values())
    return replace(values, tensors=tensors, differences=(*touched, *values.differences))


def _is_of_a_graph(name: str, value: Any) -> bool:
    """Whether it is an output whose memory a CUDA graph has used again, as it may."""
    return name.startswith(KEPT) and value is OVERWRITTEN


def _is_private(name: str) -> bool:
    """Whether it is an attribute such as torch.compile adds to modules."""
    kind, _, path = name.partition(" ")
    return kind == "attribute" and any(part.startswith("_") for part in path.split("."))


def _has_changed(result: Result, name: str) -> bool:
    return (
        name not in result.before
        or name not in result.state
        or not exact.is_same(result.before[name], result.state[name])
    )


def compare_parameters(
    initial: Mapping[str, torch.Tensor],
    eager: Mapping[str, torch.Tensor],
    compiled: Mapping[str, torch.Tensor],
    expected: Mapping[str, torch.Tensor],
    *,
    samples: Sequence[tuple[Mapping[str, torch.Tensor], Nudge]] = (),
    stepped: Collection[str] = (),
    half: bool = False,
) -> Checked:
    """What became of the parameters: how far they moved since the model was built.

    Args:
        initial: Parameters as built.
        eager: Those of the eager model now.
        compiled: Those of the compiled model now.
        expected: Those of the reference now; empty if there is none.
        samples: Those that nudged eager runs lead to, each with the size of the nudge.
        stepped: Names of those that were stepped or written to, however little that changed.
        half: Whether the case computes in half precision.
    """
    known = {n: value for n, value in initial.items() if _is_still_there(value, eager.get(n))}
    moved = {n for n, value in known.items() if n in stepped or not exact.is_same(value, eager[n])}
    touched = [
        exact.touched(f"parameter {name}", value, compiled.get(name))
        for name, value in known.items()
        if name not in moved and not exact.is_same(value, compiled.get(name))
    ]
    swallowed = {n for n in moved if _is_swallowed(initial[n], expected.get(n, eager[n]))}
    # What an action removed, added or replaced is judged as it is now, not by how far it moved.
    whole = swallowed | (eager.keys() | compiled.keys()) - known.keys()

    def judged(side: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {
            f"parameter {name}" if name in whole else f"update {name}": value.detach()
            - (0 if name in whole else initial[name].to(value.dtype))
            for name, value in side.items()
            if name in moved | whole
        }

    found = _compare_values(
        judged(eager),
        judged(compiled),
        [judged(expected)] if expected else [],
        [(judged(sample), nudge) for sample, nudge in samples],
        half=half,
    )
    return replace(found, tensors=len(initial), differences=(*touched, *found.differences))


def _is_still_there(before: torch.Tensor, now: torch.Tensor | None) -> bool:
    return now is not None and before.shape == now.shape


def _is_swallowed(initial: torch.Tensor, now: torch.Tensor) -> bool:
    """Whether a parameter moved by no more than it rounds: nothing is to be seen of such a step."""
    if not initial.is_floating_point():
        return False
    moved = float((now.detach().double() - initial.double()).norm())
    return moved < _SWALLOWED * torch.finfo(initial.dtype).eps * float(initial.double().norm())


def is_doubtful(checked: Checked, *, half: bool = False) -> bool:
    """Whether compiled code is so much further off than eager that eager's noise is in question."""
    pooled = pooled_noise(checked.errors)
    return any(difference.what == "elements" for difference in checked.differences) or any(
        is_in_doubt(
            Figures.recorded(e, "eager").at_least(pooled),
            Figures.recorded(e, "compiled"),
            e.dtype,
            half=half,
        )
        for e in checked.errors
    )


def _named(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix} {name}": value for name, value in values.items()}


def _raised(eager: Result, compiled: Result) -> Difference | None:
    """Where one side raised: the other must raise an instance of the same class."""
    if eager.error is None and compiled.error is None:
        return None
    alike = eager.error is not None and isinstance(compiled.error, type(eager.error))
    if alike and not _is_compilers_own(compiled.error):
        return None
    return exact.difference("call", "raises", _error_text(eager.error), _error_text(compiled.error))


def _is_compilers_own(error: Exception | None) -> bool:
    """Whether the compiler failed, not the model: its errors are RuntimeErrors, too."""
    return isinstance(error, (exc.BackendCompilerFailed, exc.InternalTorchDynamoError))


def raised_alike(eager: Result, compiled: Result) -> str:
    """What both sides raised; empty if they did not."""
    if eager.error is None or _raised(eager, compiled) is not None:
        return ""
    return _error_text(eager.error)


def _error_text(error: Exception | None) -> str:
    return error_text.with_kind(error) if error else "nothing"


def _groups(aliases: frozenset[frozenset[str]]) -> str:
    groups = sorted(" = ".join(sorted(group)) for group in aliases)
    return "; ".join(groups) or "no shared memory"


def _compare_values(
    eager: Mapping[str, Any],
    compiled: Mapping[str, Any],
    references: Sequence[Mapping[str, Any]],
    samples: Sequence[tuple[Mapping[str, Any], Nudge]] = (),
    *,
    half: bool = False,
    by_rows: bool = False,
    known: Checked = _NOTHING,
) -> Checked:
    differences: list[Difference] = []
    floating: list[Sides] = []
    ties = 0
    for name in (*eager, *(extra for extra in compiled if extra not in eager)):
        ours, theirs = eager.get(name), compiled.get(name)
        if isinstance(ours, float) and isinstance(theirs, float):
            ours, theirs = torch.tensor(ours), torch.tensor(theirs)
        if not (isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor)):
            if not exact.equal_objects(ours, theirs):
                differences.append(
                    exact.difference(name, "value", exact.brief(ours), exact.brief(theirs))
                )
            continue
        if not name.startswith("output"):  # those of outputs were compared with their layout
            differences += exact.unlike(name, ours, theirs)
        if ours.shape != theirs.shape or ours.is_complex() != theirs.is_complex():
            continue
        theirs = theirs.to(ours.device)
        others = [(_like(ours, sample.get(name)), nudge) for sample, nudge in samples]
        truths = [_like(ours, reference.get(name)) for reference in references]
        sides = Sides(
            name,
            ours,
            theirs,
            references=[truth for truth in truths if truth is not None],
            samples=[(other, nudge) for other, nudge in others if other is not None],
            half=half,
            by_rows=by_rows,
        )
        if ours.is_floating_point() or ours.is_complex():
            floating.append(sides)
        elif not torch.equal(ours, theirs.to(ours)):
            unequal = ours != theirs.to(ours)
            undecided = functools.reduce(
                torch.logical_or,
                (ours != other for other, _ in sides.samples),
                torch.zeros_like(unequal),
            )
            tied = int((unequal & undecided).sum())
            ties += tied
            if bool((unequal & ~undecided).any()):
                differences.append(exact.mismatches(name, ours, theirs, unequal & ~undecided))
            elif tied > FEW_TIES:
                floating.append(_of_undecided(sides))
    errors = tensor_errors(floating, {error.name: error for error in known.errors})
    whole = {error.name for error in errors if error.numel == _numel(eager[error.name])}
    for sides in floating:
        if sides.name not in whole:
            differences += exact.nonfinite(sides.name, sides.eager, sides.compiled)
    return Checked(
        tensors=len(eager), differences=tuple(differences), errors=tuple(errors), ties=ties
    )


def _numel(value: Any) -> int:
    """How many numbers a value is: a complex one counts as two."""
    return nested.real(value).numel() if isinstance(value, torch.Tensor) else 1


def _of_undecided(sides: Sides) -> Sides:
    """Integers that eager itself decides now so, now so, to be held to how far apart these are."""
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
    """Another run's value, as a tensor; None where it is none of the same shape and kind."""
    if isinstance(other, float):
        other = torch.tensor(other, dtype=torch.float64)
    comparable = (
        isinstance(other, torch.Tensor)
        and other.shape == ours.shape
        and other.is_complex() == ours.is_complex()
    )
    return other if comparable else None
