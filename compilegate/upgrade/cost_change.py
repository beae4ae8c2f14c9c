"""The change of one cost from one PyTorch to the next, as pairs of processes measured it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from compilegate.judging.finding import Finding
from compilegate.records.statistics import Shift
from compilegate.records.verdict import Outcome
from compilegate.runs.slim import SlimVerdict
from compilegate.upgrade.costs import COSTS, Cost

#: Worse by far: the whole interval lies this many floors beyond zero.
_FAR = 2
#: A growth from here on is shown as a factor, a smaller one in per cent.
_AS_FACTOR = 2.0
#: Eager's cost grew as much if its logarithm grew by this share of compiled code's, or more.
_ALIKE = 0.5

Kind = Literal[
    "worse",  # the only kind that fails, once fresh pairs judged it
    "better",
    "unchanged",
    "unsettled",  # a suspect that its pairs neither confirm nor clear
    "not measured",
]


@dataclass(frozen=True)
class CostChange:
    """How the pairs of one case changed one cost.

    Shifts are logarithms of the baseline's figure over the candidate's; negative is worse.

    Attributes:
        case: The case's id.
        cost: The name of the cost.
        kind: What was found.
        judged: Whether fresh pairs decided; else it is indicative and fails nothing.
        compiled: The change of compiled code; None where no pair measured it.
        eager: The change of eager, which explains it; None where eager has no such cost.
        figures: The figures of compiled code, baseline and candidate: geometric means.
        floor: The logarithm of the smallest growth that counts.
        pairs: Fresh pairs that measured it on both sides.
        note: Why it was not measured, or what keeps it unsettled.
        lost: The fresh pair in which the candidate alone failed; empty if there is none.
    """

    case: str
    cost: str
    kind: Kind
    judged: bool = False
    compiled: Shift | None = None
    eager: Shift | None = None
    figures: tuple[float, ...] = ()
    floor: float = 0.0
    pairs: int = 0
    note: str = ""
    lost: str = ""

    @property
    def of(self) -> Cost:
        """The entry of the registry."""
        return COSTS[self.cost]

    @property
    def fails(self) -> bool:
        """Whether fresh pairs have shown that the cost grew."""
        return self.judged and self.kind == "worse"

    @property
    def wants_more(self) -> bool:
        """Whether it fails by a small margin, which as many further pairs must confirm."""
        seen = self.compiled
        if not self.fails or self.of.is_exact or seen is None:
            return False
        return seen.high > -_FAR * self.floor

    @property
    def doubt(self) -> str:
        """Why it keeps the answer from being *safe*: pairs left it open, and it looks much worse.

        Two stored runs leave the answer open from the same growth on.
        """
        if self.kind != "unsettled" or self.compiled is None:
            return ""
        return self.summary if math.exp(-self.compiled.mean) > self.of.doubtful else ""

    @property
    def brief(self) -> str:
        """The growth of the cost alone: ``calls +10.2%``."""
        return f"{self.cost} {_growth(self.compiled)}" if self.compiled else ""

    @property
    def change(self) -> str:
        """How much the cost grew, and eager's cost: ``8 → 32 ms, 4.0× [3.9×, 4.2×]``."""
        if self.compiled is None:
            return self.note
        return f"{self.of.show(*self.figures)}, {_growth(self.compiled)}{self._of_eager}"

    @property
    def _of_eager(self) -> str:
        """Eager's change: if its cost grew as much, the compiler is not the cause."""
        if self.eager is None or self.compiled is None:
            return ""
        if self.kind in ("worse", "unsettled") and self.eager.mean < _ALIKE * self.compiled.mean:
            return f", and eager, too ({_growth(self.eager)}): not the compiler"
        return f"; eager {_growth(self.eager)}"

    @property
    def summary(self) -> str:
        """One line: the result, its size and the evidence."""
        if self.compiled is None:
            return f"{self.cost} not compared: {self.note}"
        text = f"{self._head}: {self.change}"
        note = f" ({self.note})" if self.note else ""
        return f"{text}; {self._evidence}{note}"

    @property
    def _head(self) -> str:
        match self.kind:
            case "worse":
                return self.of.worse
            case "unsettled":
                return f"{self.cost}: neither confirmed nor cleared"
            case "better":
                return f"{self.cost} cost less"
            case _:
                return f"{self.cost}: no difference"

    @property
    def _evidence(self) -> str:
        if not self.judged:
            return "one pair, indicative"
        if self.of.is_exact:
            return f"in {self.pairs + 1} pairs, {_percent(self.floor)} counts"
        return f"over {self.pairs} fresh pairs, {_percent(self.floor)} counts"


def _percent(shift: float) -> str:
    return f"more than {math.expm1(shift):.1%}"


def _growth(shift: Shift) -> str:
    """Return how much a cost grew, with its interval: ``+10.2% [+9.1%, +11.4%]``."""
    as_factor = math.exp(-shift.mean) >= _AS_FACTOR
    value, low, high = (
        f"{math.exp(-x):.1f}×" if as_factor else f"{math.expm1(-x) + 0.0:+.1%}"  # no "-0.0%"
        for x in (shift.mean, shift.high, shift.low)
    )
    return value if shift.count < 2 else f"{value} [{low}, {high}]"


def finding(changes: Sequence[CostChange], aspect: str) -> Finding:
    """Judge the costs of one aspect: growth fails once fresh pairs have shown it.

    Args:
        changes: The change of each cost of a case.
        aspect: The aspect; its costs alone count.
    """
    own = [change for change in changes if change.of.aspect == aspect]
    if not own:
        return Finding("skipped", "not compared: no pair measured it")
    decisive = min(own, key=_rank)
    others = tuple(change.summary for change in own if change is not decisive)
    return Finding(
        _outcome(decisive), decisive.summary, others, indicative=not any(c.judged for c in own)
    )


def open_question(costs: Sequence[CostChange], verdicts: Mapping[str, SlimVerdict]) -> str:
    """Return what live pairs left open and what may be worse; empty if there is nothing.

    Args:
        costs: The changes of the costs of a case.
        verdicts: The candidate's. A budgets file may allow or accept a growth.
    """
    fine = {aspect for aspect, v in verdicts.items() if v.outcome in ("passed", "expected_failure")}
    lost = [change.lost for change in costs if change.lost]
    return next(iter(lost or [c.doubt for c in costs if c.doubt and c.of.aspect not in fine]), "")


def _outcome(change: CostChange) -> Outcome:
    if change.fails:
        return "failed"
    outcomes: dict[Kind, Outcome] = {
        "better": "passed",
        "unchanged": "passed",
        "not measured": "skipped",
    }
    return outcomes.get(change.kind, "inconclusive")


def _rank(change: CostChange) -> int:
    order: tuple[Outcome, ...] = ("failed", "inconclusive", "passed", "skipped")
    return order.index(_outcome(change))
