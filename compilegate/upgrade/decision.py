"""The decision whether to upgrade: one word, its reason, and what to look at first."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from compilegate.records import environment_changes
from compilegate.records.case import device_of
from compilegate.records.environment_changes import headline
from compilegate.records.run import Header
from compilegate.runs import reproduction
from compilegate.upgrade.case_comparison import CLASSES, WORSE, CaseComparison
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.costs import COUNTED

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
        command: The command whose answer settles it; empty where none would.
    """

    answer: Answer
    because: str
    where: str
    counts: str
    command: str = ""

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
    is in doubt, no cost looks worse, and at least one case was judged in both runs.
    """
    where = f"{_versions(comparison)} on {_devices(comparison)}"
    worse = list(_worse(comparison))
    if worse:
        because = ", ".join(worse) + _one_cause(comparison)
        return Decision("do not upgrade", because, where, _counts(comparison, WORSE))
    if costs := str(comparison.costs):
        again = _command(comparison)
        return Decision("cannot say", costs, where, _counts(comparison), again)
    doubts = [item for item in comparison.cases if item.doubt]
    if doubts:
        why = _doubt(doubts)
        return Decision("cannot say", why, where, _counts(comparison))
    undecided = ("new", "not comparable", "inconclusive")
    if all(item.kind in undecided for item in comparison.cases):
        why = _why_nothing(comparison)
        return Decision("cannot say", why, where, _counts(comparison))
    return Decision("safe", "", where, _counts(comparison))


def _command(comparison: Comparison) -> str:
    """Return the command that compares costs in live pairs of both versions."""
    candidate = comparison.candidate
    cases = [item.case for item in comparison.cases if any(g.is_worse for g in item.growths)]
    devices = sorted({device_of(case) for case in cases or candidate.planned})
    python = f"/path/to/torch-{version(comparison.baseline)}/bin/python"
    return shlex.join(reproduction.paired_words(candidate, cases, python, devices))


def _worse(comparison: Comparison) -> Iterator[str]:
    """Count the classes that count against the candidate; cases that only cost more come last."""
    if broken := comparison.counts["broken"]:
        yield f"{broken} broken"
    regressed = list(comparison.of("regressed"))
    costlier = Counter(item.costlier for item in regressed if item.costlier)
    if others := len(regressed) - costlier.total():
        yield f"{others} regressed"
    if eager := comparison.counts["eager regressed"]:
        yield f"{eager} eager regressed"
    for how in COUNTED.values():
        if costlier[how]:
            yield f"{costlier[how]} {how}"


def _one_cause(comparison: Comparison) -> str:
    """Return the change that explains every case that is worse; empty if no single one does."""
    found = [item.attribution for item in comparison.of(*WORSE)]
    causes = {attribution.cause if attribution else "" for attribution in found}
    if len(causes) > 1 or not (cause := causes.pop()):
        return ""
    return f", all by {cause}" if len(found) > 1 else f" by {cause}"


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
    if comparison.machines:
        parts.append(f"costs not compared: {comparison.machines}")
    return ", ".join(parts)


def version(header: Header) -> str:
    """The torch of a run, without the build that its wheel was made for."""
    return header.environment.versions.get("torch", "?").partition("+")[0]


def _versions(comparison: Comparison) -> str:
    """Return the versions of torch, and other differences between the environments."""
    sides = [header.environment for header in (comparison.baseline, comparison.candidate)]
    before, now = version(comparison.baseline), version(comparison.candidate)
    builds = [side.versions.get("torch", "?") for side in sides]
    if before == now and builds[0] != builds[1]:
        before, now = builds
    unnamed = {"torch"}
    if environment_changes.is_unknown(*sides):
        unnamed |= sides[0].versions.keys() ^ sides[1].versions.keys()
    deciding = environment_changes.deciding(*sides)
    others = headline([change for change in deciding if change.name not in unnamed])
    return f"torch {before} → {now}{', ' * bool(others)}{others}"


def _devices(comparison: Comparison) -> str:
    kinds = sorted({device_of(item.case) for item in comparison.cases})
    sides = []
    for header in (comparison.baseline, comparison.candidate):
        found = (header.environment.device(kind) for kind in kinds)
        sides.append(" and ".join(device.name for device in found if device) or "nothing")
    return sides[1] if sides[0] == sides[1] else f"{sides[0]} → {sides[1]}"
