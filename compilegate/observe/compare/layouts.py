"""Compare the outputs of one call except their values: structure, shapes, dtypes, strides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compilegate.observe.compare import exact
from compilegate.observe.model.result import LAZY, Result
from compilegate.records.call import SHAPE, Decision, Difference


def compare_layouts(eager: Result, compiled: Result) -> tuple[Difference, ...]:
    """Compare the outputs of one call except their values.

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
            if layout[what] != other[what] and not _is_resolved(what, other)
        ]
    return tuple(differences)


def without_undecided_shapes(
    differences: Sequence[Difference], eager: Result, others: Sequence[Result]
) -> tuple[list[Difference], list[Decision]]:
    """Return the differences without those of outputs whose shape rounding decides.

    How many elements ``unique_consecutive`` returns depends on the last bit. Where a reference, or
    a nudged eager run, has another shape than eager, nothing says which is right.

    Args:
        differences: The differences of layouts.
        eager: The eager call.
        others: The references, and nudged eager runs.

    Returns:
        The others, and a decision for each such output.
    """
    decisions = []
    for one in differences:
        if one.what != SHAPE or one.where not in eager.layout:
            continue
        shapes = [other.layout[one.where][SHAPE] for other in others if one.where in other.layout]
        if another := [shape for shape in shapes if shape != one.eager]:
            decisions.append(
                Decision(
                    where=f"{one.where}, {SHAPE}",
                    eager=f"{one.eager}, another run {another[0]}",
                    compiled=one.compiled,
                    elements=1,
                    answered=1,
                )
            )
    undecided = undecided_in(decisions)
    return [one for one in differences if one.where not in undecided], decisions


def undecided_in(decisions: Iterable[Decision]) -> set[str]:
    """Return the names of the outputs whose shape rounding decides."""
    ends = f", {SHAPE}"
    return {one.where.removesuffix(ends) for one in decisions if one.where.endswith(ends)}


def _is_resolved(what: str, compiled: Mapping[str, str]) -> bool:
    """Whether compiled code has conjugated or negated what eager leaves to others.

    Inductor does, and nobody misses it. The reverse makes ``numpy()`` raise, and code that reads
    the memory reads other numbers.
    """
    return what == LAZY and compiled[what] == "none"
