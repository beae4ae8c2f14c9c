"""The decision whether to upgrade: one word, its reason, and what to look at first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from compilegate.records.case import device_of
from compilegate.records.run import Header
from compilegate.upgrade.case_comparison import CLASSES, WORSE, CaseComparison
from compilegate.upgrade.comparison import Comparison

Answer = Literal["safe", "do not upgrade", "cannot say"]

#: Exit status of ``python -m compilegate compare``.
EXIT_STATUS: dict[Answer, int] = {"safe": 0, "do not upgrade": 1, "cannot say": 2}


@dataclass(frozen=True)
class Decision:
    """May we move?

    Attributes:
        answer: Yes, no, or undecided.
        because: What counts against the candidate, or why these runs do not decide; empty if safe.
        where: ``torch 2.14.1 → 2.15.0 on NVIDIA H200``.
        counts: The number of cases, then of the classes that ``because`` does not name.
    """

    answer: Answer
    because: str
    where: str
    counts: str

    @property
    def exit_status(self) -> int:
        """0 nothing worse, 1 something worse, 2 cannot say."""
        return EXIT_STATUS[self.answer]

    def __str__(self) -> str:
        because = f": {self.because}" if self.because else ""
        return f"{self.where}: {self.answer}{because} ({self.counts})"


def decide(comparison: Comparison) -> Decision:
    """Decide from a comparison whether to upgrade.

    One case that is worse decides, however many are missing. The answer is *safe* only if no case
    is in doubt and at least one was judged in both runs.
    """
    where = f"{_versions(comparison)} on {_devices(comparison)}"
    worse = list(_worse(comparison))
    if worse:
        return Decision("do not upgrade", ", ".join(worse), where, _counts(comparison, WORSE))
    doubts = [item for item in comparison.cases if item.doubt]
    if doubts:
        why = _doubt(doubts)
        return Decision("cannot say", why, where, _counts(comparison))
    undecided = ("new", "not comparable", "inconclusive")
    if all(item.kind in undecided for item in comparison.cases):
        why = _why_nothing(comparison)
        return Decision("cannot say", why, where, _counts(comparison))
    return Decision("safe", "", where, _counts(comparison))


def _worse(comparison: Comparison) -> Iterator[str]:
    """Count the classes that count against the candidate; cases that are only slower come last."""
    if broken := comparison.counts["broken"]:
        yield f"{broken} broken"
    regressed = list(comparison.of("regressed"))
    slower = sum(item.is_slower for item in regressed)
    if others := len(regressed) - slower:
        yield f"{others} regressed"
    if slower:
        yield f"{slower} slower"


def _doubt(doubts: Sequence[CaseComparison]) -> str:
    """How many cases keep the answer from being *safe*, and the first of them."""
    counted = Counter(item.kind for item in doubts)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counted.items())
    first = "" if len(doubts) == 1 else "first "
    return f"{kinds}, {first}{doubts[0].case}: {doubts[0].doubt}"


def _why_nothing(comparison: Comparison) -> str:
    if not comparison.cases:
        return "neither run planned any case"
    if comparison.counts["inconclusive"]:
        return f"nothing is conclusive: {next(comparison.of('inconclusive')).reason}"
    if not comparison.counts["not comparable"]:
        return "the runs have no case in common"
    first = next(comparison.of("not comparable"))
    return f"nothing can be compared: {first.reason}"


def _counts(comparison: Comparison, named: Sequence[str] = ()) -> str:
    cases = len(comparison.cases)
    parts = [f"{cases} case{'s' * (cases != 1)}"]
    parts += [
        f"{count} {kind}"
        for kind in CLASSES
        if kind not in (*named, "unchanged") and (count := comparison.counts[kind])
    ]
    if accepted := sum(item.has_accepted_cost for item in comparison.cases):
        parts.append(f"{accepted} with an accepted cost")
    return ", ".join(parts)


def version(header: Header) -> str:
    """The torch of a run, without the build that its wheel was made for."""
    return header.environment.versions.get("torch", "?").partition("+")[0]


def _versions(comparison: Comparison) -> str:
    before, now = version(comparison.baseline), version(comparison.candidate)
    if before == now:  # then the builds, where they are what differs
        whole = [
            header.environment.versions.get("torch", "?")
            for header in (comparison.baseline, comparison.candidate)
        ]
        before, now = whole if whole[0] != whole[1] else (before, now)
    return f"torch {before} → {now}"


def _devices(comparison: Comparison) -> str:
    kinds = sorted({device_of(item.case) for item in comparison.cases})
    sides = []
    for header in (comparison.baseline, comparison.candidate):
        found = (header.environment.device(kind) for kind in kinds)
        sides.append(" and ".join(device.name for device in found if device) or "nothing")
    return sides[1] if sides[0] == sides[1] else f"{sides[0]} → {sides[1]}"
