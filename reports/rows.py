"""A comparison or a run in rows: cases of a model that came to the same share one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from compilegate.judging.aspects import ASPECTS
from compilegate.records.case import model_of
from compilegate.records.observation import Stage
from compilegate.reports.case_figures import Standing
from compilegate.upgrade.comparison import CLASSES, CaseComparison, Class, Comparison
from compilegate.upgrade.proposals import proposals
from compilegate.upgrade.verdict_changes import Change

#: Classes that a table shows; the others are counted.
TOLD: tuple[Class, ...] = tuple(kind for kind in CLASSES if kind not in ("unchanged", "new"))


@dataclass(frozen=True)
class Row:
    """Cases of one model that came to the same for the same reason.

    Attributes:
        kind: Their class, or the outcome of their verdict.
        cases: Their ids.
        aspect: What it is about; empty for the case as a whole.
        text: What happened.
        details: Further lines.
        proposals: Budget values that would hold what became better, as TOML.
    """

    kind: str
    cases: tuple[str, ...]
    aspect: str
    text: str
    details: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()

    @property
    def who(self) -> str:
        """The first case, and how many more."""
        more = f" and {len(self.cases) - 1} more" if len(self.cases) > 1 else ""
        return f"{self.cases[0]}{more}"

    @property
    def what(self) -> str:
        """The aspect and what happened, in one line."""
        return f"{self.aspect}: {self.text}" if self.aspect else self.text


def rows_of(comparison: Comparison, kinds: Sequence[Class] = TOLD) -> list[Row]:
    """What a table shows of a comparison, what to look at first at the top."""
    rank = {kind: index for index, kind in enumerate(CLASSES)}

    def place(item: CaseComparison) -> tuple[int, int]:
        return rank[item.kind], gravity(item.decisive.aspect if item.decisive else "")

    told = sorted(comparison.of(*kinds), key=place)
    alike: dict[tuple[str, str, str, str], list[CaseComparison]] = {}
    for item in told:
        change = item.decisive or Change("", "note", "")
        key = (item.kind, model_of(item.case), change.aspect, change.text)
        alike.setdefault(key, []).append(item)
    rows = []
    for (kind, _, aspect, text), items in alike.items():
        change = items[0].decisive or Change("", "note", "")
        proposed = [line for item in items for line in proposals(item)]
        cases = tuple(item.case for item in items)
        rows.append(Row(kind, cases, aspect, text, change.details, tuple(proposed)))
    return rows


def verdict_rows(cases: Mapping[str, Standing], outcomes: Sequence[str]) -> list[Row]:
    """The verdicts of a run with some outcomes, in the order of these.

    What all aspects say of a case that ended early is about the whole of it.
    """
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for case, standing in cases.items():
        said = Counter(verdict.summary for verdict in standing.verdicts.values())
        for verdict in standing.verdicts.values():
            if verdict.outcome in outcomes:
                is_whole = standing.ended_early and said[verdict.summary] > 1
                aspect = "" if is_whole else verdict.aspect
                key = (verdict.outcome, model_of(case), aspect, verdict.summary)
                if case not in alike.setdefault(key, []):
                    alike[key].append(case)
    rows = [
        Row(outcome, tuple(names), aspect, text)
        for (outcome, _, aspect, text), names in alike.items()
    ]
    return sorted(rows, key=lambda row: (outcomes.index(row.kind), gravity(row.aspect)))


#: What ended early comes first, the earliest stage before all; then wrong answers, then their cost.
_GRAVEST = (
    "",
    *(f"stage {stage}" for stage in get_args(Stage)),
    *ASPECTS,
)


def gravity(aspect: str) -> int:
    """The place of an aspect among what to look at first; empty for a case as a whole."""
    return _GRAVEST.index(aspect) if aspect in _GRAVEST else len(_GRAVEST)
