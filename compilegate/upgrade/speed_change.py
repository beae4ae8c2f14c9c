"""The change of a case's speed from one PyTorch to the next, as pairs of processes measured it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from compilegate.records.statistics import Shift

#: Smaller changes do not matter, however significant they are. A logarithm, as all shifts here.
FLOOR = math.log(1.03)
#: Slower by far: the whole interval lies this many floors below zero.
_FAR = 2

Kind = Literal[
    "slower",  # compiled code is slower: the only kind that fails, once fresh pairs judged it
    "faster",
    "eager moved",
    "both moved",
    "unchanged",
    "unsettled",  # a suspect that its pairs neither confirm nor clear
    "not measured",
]

_SENTENCES: dict[Kind, str] = {
    "slower": "compiled code is slower",
    "faster": "compiled code is faster",
    "eager moved": "eager moved, compiled code did not",
    "both moved": "eager and compiled code both moved",
    "unchanged": "no difference",
    "unsettled": "neither confirmed nor cleared",
    "not measured": "not compared",
}


@dataclass(frozen=True)
class SpeedChange:
    """What the pairs of one case showed.

    Shifts are differences of logarithms, candidate against baseline; negative is worse.

    Attributes:
        case: Its id.
        kind: What was found.
        judged: Whether fresh pairs decided; else it is indicative and fails nothing.
        speedup: The change of the speedup over eager; None where no pair was timed.
        compiled: The change of compiled code.
        eager: The change of eager.
        floor: The smallest shift that counts as a change.
        pairs: Fresh pairs that were timed on both sides.
        note: Why it was not measured, or what keeps it unsettled.
    """

    case: str
    kind: Kind
    judged: bool = False
    speedup: Shift | None = None
    compiled: Shift | None = None
    eager: Shift | None = None
    floor: float = FLOOR
    pairs: int = 0
    note: str = ""

    @property
    def fails(self) -> bool:
        """Whether fresh pairs have shown compiled code slower."""
        return self.judged and self.kind == "slower"

    @property
    def wants_more(self) -> bool:
        """Whether it fails by so little that the same number of pairs must confirm it."""
        return self.fails and self.speedup is not None and self.speedup.high > -_FAR * self.floor

    @property
    def change(self) -> str:
        """The change in per cent: of the speedup, of compiled code, of eager."""
        if self.speedup is None or self.compiled is None or self.eager is None:
            return self.note
        return (
            f"speedup {_percent(self.speedup)}, compiled {_percent(self.compiled)}, "
            f"eager {_percent(self.eager)}"
        )

    @property
    def summary(self) -> str:
        """One line: what was found, by how much, on what evidence."""
        if self.speedup is None:
            return f"not compared: {self.note}"
        evidence = "in one pair, indicative"
        if self.judged:
            least = f"at least {math.expm1(self.floor):.1%} counts"
            evidence = f"over {self.pairs} fresh pairs, {least}"
        note = f" ({self.note})" if self.note else ""
        return f"{_SENTENCES[self.kind]}: {self.change} {evidence}{note}"


def _percent(shift: Shift) -> str:
    value = f"{math.expm1(shift.mean):+.1%}"
    if shift.count < 2:
        return value
    return f"{value} [{math.expm1(shift.low):+.1%}, {math.expm1(shift.high):+.1%}]"
