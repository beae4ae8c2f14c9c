"""Groups of cases: cases of one model that have the same result for the same reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from compilegate.judging.aspects import ASPECTS
from compilegate.records.case import model_of
from compilegate.records.observation import Stage
from compilegate.reports.case_result import CaseResult
from compilegate.upgrade.case_comparison import CLASSES, CaseComparison, Class
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.proposals import proposals
from compilegate.upgrade.verdict_changes import Change

#: The classes that a table of a comparison shows; it counts the others.
SHOWN: tuple[Class, ...] = tuple(kind for kind in CLASSES if kind not in ("unchanged", "new"))


@dataclass(frozen=True)
class CaseGroup:
    """Cases of one model that have the same result for the same reason.

    Attributes:
        kind: Their class in a comparison, or the outcome of their verdicts.
        cases: Their ids.
        aspect: The aspect that the result is about; empty if it is about all of them.
        text: What happened.
        details: Further lines.
        proposals: Budget values that would keep what became better, as TOML.
        report: The path of the report of a triage, from the page; empty for none.
    """

    kind: str
    cases: tuple[str, ...]
    aspect: str
    text: str
    details: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()
    report: str = ""

    @property
    def who(self) -> str:
        """The first case, and how many more there are."""
        more = f" and {len(self.cases) - 1} more" if len(self.cases) > 1 else ""
        return f"{self.cases[0]}{more}"

    @property
    def what(self) -> str:
        """The aspect and what happened, in one line."""
        return f"{self.aspect}: {self.text}" if self.aspect else self.text


def of_comparison(comparison: Comparison, kinds: Sequence[Class] = SHOWN) -> list[CaseGroup]:
    """Return the cases of some classes in groups, the gravest first."""
    rank = {kind: index for index, kind in enumerate(CLASSES)}

    def place(item: CaseComparison) -> tuple[int, int]:
        return rank[item.kind], gravity(item.decisive.aspect if item.decisive else "")

    alike: dict[tuple[str, str, str, str], list[CaseComparison]] = {}
    for item in sorted(comparison.of(*kinds), key=place):
        change = item.decisive or Change("", "note", "")
        key = (item.kind, model_of(item.case), change.aspect, change.text)
        alike.setdefault(key, []).append(item)
    groups = []
    for (kind, _, aspect, text), items in alike.items():
        change = items[0].decisive or Change("", "note", "")
        proposed = [line for item in items for line in proposals(item)]
        cases = tuple(item.case for item in items)
        groups.append(CaseGroup(kind, cases, aspect, text, change.details, tuple(proposed)))
    return groups


def of_verdicts(results: Mapping[str, CaseResult], outcomes: Sequence[str]) -> list[CaseGroup]:
    """Return the cases that have a verdict with one of some outcomes, in the order of these.

    A case that ended early or compiled nothing is in one group, as a whole, where its aspects have
    the same verdict.
    """
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for case, result in results.items():
        summaries = Counter(verdict.summary for verdict in result.verdicts.values())
        for verdict in result.verdicts.values():
            if verdict.outcome in outcomes:
                is_whole = result.is_judged_as_whole and summaries[verdict.summary] > 1
                aspect = "" if is_whole else verdict.aspect
                key = (verdict.outcome, model_of(case), aspect, verdict.summary)
                if case not in alike.setdefault(key, []):
                    alike[key].append(case)
    groups = [
        CaseGroup(outcome, tuple(names), aspect, text)
        for (outcome, _, aspect, text), names in alike.items()
    ]
    return sorted(groups, key=lambda group: (outcomes.index(group.kind), gravity(group.aspect)))


#: Whole cases come first, then the stages in their order, then wrong answers, then costs.
_GRAVEST = (
    "",
    *(f"stage {stage}" for stage in get_args(Stage)),
    *ASPECTS,
)


def gravity(aspect: str) -> int:
    """Return the rank of an aspect in a report; ``""``, all aspects, comes first."""
    return _GRAVEST.index(aspect) if aspect in _GRAVEST else len(_GRAVEST)
