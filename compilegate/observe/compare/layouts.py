"""Compare the outputs of one call except their values: structure, shapes, dtypes, strides."""

from __future__ import annotations

from collections.abc import Mapping

from compilegate.observe.compare import exact
from compilegate.observe.model.result import LAZY, Result
from compilegate.records.call import Difference


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


def _is_resolved(what: str, compiled: Mapping[str, str]) -> bool:
    """Whether compiled code has conjugated or negated what eager leaves to others.

    Inductor does, and nobody misses it. The reverse makes ``numpy()`` raise, and code that reads
    the memory reads other numbers.
    """
    return what == LAZY and compiled[what] == "none"
