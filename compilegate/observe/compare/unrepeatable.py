"""Plain values that eager itself does not repeat: a time, a duration, an identifier.

A model may keep one as an attribute, or return it. No seed determines it, so another value in
compiled code is no difference. Compiled code must set it where eager does, to one of its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from compilegate.observe import objects
from compilegate.observe.compare import exact
from compilegate.observe.model.equality import equal_objects, is_same
from compilegate.observe.model.result import Result
from compilegate.records.call import Checked

#: Numbers that eager repeats as closely are no times: atomic additions on a GPU may round otherwise
#: in each run.
_REPEATED = 0.01
#: The types of such values. A flag is none: it has two values, and each decides something.
_TYPES = (int, float, str, bytes)


def candidates(part: str, eager: Result, compiled: Result) -> list[str]:
    """Return the names of plain values in which compiled code differs from eager.

    Args:
        part: The part of a result: ``output`` or ``state``.
        eager: The result of eager.
        compiled: That of compiled code.
    """
    theirs = getattr(compiled, part)
    return [
        name
        for name, ours in getattr(eager, part).items()
        if type(ours) in _TYPES and name in theirs and _is_another(ours, theirs[name])
    ]


def without_unrepeatable(
    checked: Checked, part: str, eager: Result, compiled: Result, again: Sequence[Result]
) -> Checked:
    """Return the comparison without the plain values that eager does not repeat.

    Args:
        checked: The comparison.
        part: The part of a result that was compared: ``output`` or ``state``.
        eager: The result of eager.
        compiled: That of compiled code.
        again: Those of the same eager call, made again.
    """
    ours, theirs = getattr(eager, part), getattr(compiled, part)
    runs = [getattr(run, part) for run in again]
    names = [
        name
        for name in candidates(part, eager, compiled)
        if any(name in run and _is_another(ours[name], run[name]) for run in runs)
    ]
    if not names:
        return checked
    kept = [one for one in checked.differences if one.where not in names]
    opaque = []
    for name in names:
        if part == "state" and is_same(compiled.before.get(name), theirs[name]):
            left = f"leaves it {exact.brief(theirs[name])}"
            kept.append(exact.difference(name, "value", exact.brief(ours[name]), left))
        elif not objects.alike(type(ours[name]), type(theirs[name])):
            kept += [one for one in checked.differences if one.where == name]
        else:
            opaque.append(f"{name} ({type(ours[name]).__name__})")
    return replace(
        checked,
        differences=tuple(kept),
        errors=tuple(error for error in checked.errors if error.name not in names),
        opaque=(*checked.opaque, *opaque),
    )


def _is_another(ours: Any, other: Any) -> bool:
    if isinstance(ours, float) and isinstance(other, float):
        return abs(ours - other) > _REPEATED * max(abs(ours), abs(other))
    return not equal_objects(ours, other)
