"""How much more Python runs while a case compiles than under the PyTorch in use.

The number of calls does not depend on the machine, so runs of any two can be compared. It depends
on the version of Python, whose minor version must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from compilegate.judging.budget import Budget
from compilegate.records.performance import CompileWork

#: The aspect that judges it.
COMPILE_WORK = "compile_work"
#: Growth beyond this share is worse, where no budget says otherwise.
DEFAULT_ALLOWED = Budget().max_compile_calls_growth

#: As many functions as a text names, and the least growth of a part that it shows.
_NAMED, _SHOWN = 3, 0.001
_PARTS = {
    "dynamo": "Dynamo",
    "aot": "AOTAutograd",
    "inductor": "Inductor",
    "codegen": "code generation",
    "rest": "FX and others",
}


@dataclass(frozen=True)
class WorkGrowth:
    """The calls of two runs compared.

    Attributes:
        kind: How the candidate's number relates to the baseline's, given the growth allowed.
        text: Both numbers, what grew, and the functions that explain it.
    """

    kind: Literal["more", "less", "same"]
    text: str


def incomparable(before: CompileWork, now: CompileWork) -> str:
    """Return why two counts cannot be compared; empty if they can."""
    if before.python != now.python:
        return (
            f"compile work cannot be compared, because calls depend on Python: {before.python} → "
            f"{now.python}"
        )
    if _reached_the_compiler(now) and not _reached_the_compiler(before):
        return "compile work cannot be compared, because the PyTorch in use compiled nothing"
    return ""


def _reached_the_compiler(work: CompileWork) -> bool:
    """Return whether Dynamo gave any graph to what stands behind it."""
    return bool(work.aot or work.inductor or work.codegen)


def growth(before: CompileWork, now: CompileWork, allowed: float = DEFAULT_ALLOWED) -> WorkGrowth:
    """Compare two counts of one version of Python.

    Args:
        before: The count of the PyTorch in use.
        now: The candidate's.
        allowed: The growth that is no change, as a share; the same share less is *less*.
    """
    share = _share(before.total, now.total)
    kind: Literal["more", "less", "same"] = "same"
    if share > allowed:
        kind = "more"
    elif share < -allowed:
        kind = "less"
    text = f"compile work {share:+.1%} ({before.total:,} → {now.total:,} Python calls)"
    if parts := ", ".join(_parts(before, now)):
        text += f": {parts}"
    sign = {"more": 1, "less": -1, "same": 0}[kind]
    if sign and (most := ", ".join(_functions(before.functions, now.functions, sign))):
        text += f"; most: {most}"
    return WorkGrowth(kind, text)


def _share(before: int, now: int) -> float:
    return now / before - 1 if before else 0.0


def _parts(before: CompileWork, now: CompileWork) -> Iterator[str]:
    """Yield the parts of PyTorch whose calls changed; the largest change comes first."""
    counts = {part: (getattr(before, part), getattr(now, part)) for part in _PARTS}
    for part, (then, later) in sorted(
        counts.items(), key=lambda item: -abs(item[1][1] - item[1][0])
    ):
        share = _share(then, later)
        if then and abs(share) >= _SHOWN:
            yield f"{_PARTS[part]} {share:+.1%}"
        elif later and not then:
            yield f"{_PARTS[part]} +{later:,} calls"


def _functions(before: Mapping[str, int], now: Mapping[str, int], sign: int) -> Iterator[str]:
    """Yield the functions whose calls changed most in a direction, 1 for more and -1 for fewer.

    A record keeps only the functions with the most calls. One that the other record lacks had no
    more calls there than the last that it keeps.
    """
    least_before, least_now = (min(calls.values(), default=0) for calls in (before, now))
    changes = {
        name: now.get(name, least_now) - before.get(name, least_before)
        for name in dict.fromkeys((*now, *before))
    }
    for name, change in sorted(changes.items(), key=lambda item: -sign * item[1])[:_NAMED]:
        if sign * change > 0:
            bound = "" if name in before and name in now else "at least "
            yield f"{name} {bound}{change:+,}"
