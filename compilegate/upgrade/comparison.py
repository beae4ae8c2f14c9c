"""Two runs, case by case: every planned case of either ends in exactly one class.

Nothing here imports torch or pytest. :mod:`compilegate.upgrade.case_comparison` compares each case,
:mod:`compilegate.upgrade.decision` answers whether to upgrade.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from compilegate.records.attribution import Attribution
from compilegate.records.case import device_of
from compilegate.records.run import Header
from compilegate.records.wording import counted
from compilegate.runs import parallel
from compilegate.runs.archive import Archive
from compilegate.upgrade.case_comparison import (
    CLASSES,
    WORSE,
    CaseComparison,
    Class,
    compare_case,
)
from compilegate.upgrade.comparable import incomplete, machines_differ, revisions, unrecorded
from compilegate.upgrade.cost_change import CostChange
from compilegate.upgrade.other_numbers import is_of_other_numbers
from compilegate.upgrade.stored_costs import CostCheck, check


class CompareError(ValueError):
    """Runs that cannot be compared, or a comparison that does not add up."""


@dataclass(frozen=True)
class Comparison:
    """Two runs compared.

    Attributes:
        baseline: Header of the run of the version in use.
        candidate: Header of the run of the version that may replace it.
        cases: One entry for every case that either planned.
        machines: How the machines differ; empty where times can be compared.
        cautions: What else a reader should know.
        counts: The number of cases in each class.
        costs: The costs of all cases together.
    """

    baseline: Header
    candidate: Header
    cases: tuple[CaseComparison, ...]
    machines: str = ""
    cautions: tuple[str, ...] = ()
    counts: Mapping[Class, int] = field(init=False)
    costs: CostCheck = field(init=False)

    def __post_init__(self) -> None:
        counted = Counter(item.kind for item in self.cases)
        object.__setattr__(self, "counts", {kind: counted[kind] for kind in CLASSES})
        object.__setattr__(self, "costs", check({item.case: item.growths for item in self.cases}))
        planned = {*self.baseline.planned, *self.candidate.planned}
        entries = Counter(item.case for item in self.cases)
        lost, twice = planned - entries.keys(), [c for c, times in entries.items() if times > 1]
        if lost or twice or sum(self.counts.values()) != len(entries):
            raise CompareError(
                f"the classes do not add up: {len(self.cases)} entries for {len(planned)} planned "
                f"cases, {len(lost)} of them missing, {len(twice)} twice; this is a bug of "
                "compilegate"
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: the cautions, and that right answers are others than before.

        Another revision of compilegate may have other models.
        """
        other = [case.case for case in self.cases if any(map(is_of_other_numbers, case.changes))]
        if not other or self.baseline.revision != self.candidate.revision:
            return self.cautions
        text = (
            f"eager itself gives other numbers in {counted(len(other), 'case')}, such as "
            f"{other[0]}: an operator computes something else, or weights and inputs are drawn "
            "otherwise; each version is judged by its own reference"
        )
        return (*self.cautions, text)

    def of(self, *kinds: Class) -> Iterator[CaseComparison]:
        """Return the cases of some classes."""
        return (item for item in self.cases if item.kind in kinds)


def compare(
    baseline: Archive,
    candidate: Archive,
    paired: Mapping[str, Sequence[CostChange]] | None = None,
) -> Comparison:
    """Compare two stored runs.

    Args:
        baseline: The run of the version in use.
        candidate: The run of the version that may replace it.
        paired: What live pairs showed, by case; None if the runs were not paired.

    Raises:
        RunError: A line of either is no record.
    """
    machines = {
        device: machines_differ(baseline.header, candidate.header, device)
        for device in ("cpu", "cuda")
    }

    def one(case: str) -> CaseComparison:
        return compare_case(
            case,
            baseline.seen(case),
            candidate.seen(case),
            times_compare=not machines.get(device_of(case)),
            paired=paired is not None,
            costs=(paired or {}).get(case, ()),
        )

    compared = parallel.over(tuple(dict.fromkeys((*candidate.cases, *baseline.cases))), one)
    used = {device_of(item.case) for item in compared}
    differ = "; ".join(text for device, text in machines.items() if text and device in used)
    # Only a paired session attributes, and to what differs from its own baseline.
    found = {} if paired is None else {c: candidate.attribution(c) for c in candidate.cases}
    return Comparison(
        baseline.header,
        candidate.header,
        tuple(attributed(compared, {c: a for c, a in found.items() if a is not None})),
        differ,
        (
            *incomplete("baseline", baseline, candidate),
            *incomplete("candidate", candidate),
            *revisions(baseline.header, candidate.header),
            *unrecorded(baseline.header, candidate.header),
        ),
    )


def attributed(
    cases: Iterable[CaseComparison], found: Mapping[str, Attribution]
) -> Iterator[CaseComparison]:
    """Yield cases with what makes them worse, where that is known of the same change.

    Args:
        cases: How the cases compare.
        found: The attributions, by case id.
    """
    for item in cases:
        known = found.get(item.case)
        aspect = item.decisive.aspect if item.decisive else ""
        if known is not None and item.kind in WORSE and known.aspect == aspect:
            yield replace(item, attribution=known)
        else:
            yield item


#: What a comparison follows from.
_Parts = tuple[Header, Header, tuple[CaseComparison, ...], str, tuple[str, ...]]


def dump(comparison: Comparison) -> bytes:
    """Return a comparison as JSON, for another process."""
    parts: _Parts = (
        comparison.baseline,
        comparison.candidate,
        comparison.cases,
        comparison.machines,
        comparison.cautions,
    )
    return msgspec.json.encode(parts)


def load(text: bytes) -> Comparison:
    """Return the comparison that :func:`dump` wrote."""
    return Comparison(*msgspec.json.decode(text, type=_Parts))
