"""Two runs, case by case: every planned case of either ends in exactly one class.

Nothing here imports torch or pytest, and nothing is judged again: verdicts are the recorded ones;
counts, numbers and memory are compared as they were observed. The modules ``verdict_changes`` and
``fact_changes`` say what changed, the module ``decision`` says what it all comes to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from compilegate.records.case import device_of, precision_of
from compilegate.records.run import Header
from compilegate.runs import parallel
from compilegate.runs.archive import Archive, Seen
from compilegate.runs.digest import Digest
from compilegate.upgrade import fact_changes, verdict_changes
from compilegate.upgrade.comparable import incomparable, incomplete, machines_differ, revisions
from compilegate.upgrade.verdict_changes import SPEED, Change, Effect, ending, failing

#: In the order in which a reader should look at them.
Class = Literal[
    "broken",
    "regressed",
    "gone",
    "inconclusive",
    "not comparable",
    "fixed",
    "improved",
    "new",
    "unchanged",
]
CLASSES: tuple[Class, ...] = get_args(Class)
#: The classes that count against the candidate.
WORSE: tuple[Class, ...] = ("broken", "regressed")


class CompareError(ValueError):
    """Runs that cannot be compared, or a comparison that does not add up."""


#: Per cent by which one pair of processes must differ for that to be told.
WORTH_TELLING = 3.0

Cause = Literal[
    "compiled slower", "compiled faster", "eager moved", "both moved", "no change", "unsettled"
]


@dataclass(frozen=True, kw_only=True)
class Slowdown:
    """What pairs of live processes, one per version, showed of a case's speed.

    Attributes:
        case: Its id.
        change_percent: By how much the speedup over eager fell; negative where it rose.
        low: Lower end of its interval.
        high: Upper end.
        judged: Whether there were enough pairs to judge; else it is indicative and fails nothing.
        cause: What the change is due to. Only *compiled slower* counts against the candidate.
    """

    case: str
    change_percent: float
    low: float
    high: float
    judged: bool
    cause: Cause


@dataclass(frozen=True)
class CaseComparison:
    """What became of a case.

    Attributes:
        case: Its id.
        kind: Its class.
        changes: What changed; empty for nearly all.
        doubt: Why the answer cannot be *safe* on account of it; empty if it can.
    """

    case: str
    kind: Class
    changes: tuple[Change, ...] = ()
    doubt: str = ""

    @property
    def reason(self) -> str:
        """The change that decided its class, in one line."""
        if (decisive := self.decisive) is None:
            return ""
        return f"{decisive.aspect}: {decisive.text}" if decisive.aspect else decisive.text

    @property
    def decisive(self) -> Change | None:
        """The change that decided its class, if any did."""
        effect = next((effect for effect, kind in _DECIDES if kind == self.kind), "note")
        return next((change for change in self.changes if change.effect == effect), None)

    @property
    def is_slower(self) -> bool:
        """Whether all that is worse is its speed."""
        worse = [change for change in self.changes if change.effect in ("broken", "worse")]
        return bool(worse) and all(change.aspect == SPEED for change in worse)


@dataclass(frozen=True)
class Comparison:
    """Two runs compared.

    Attributes:
        baseline: Header of the run that is in use.
        candidate: Header of the run that is to take its place.
        cases: One entry for every case that either planned.
        machines: How the machines differ; empty where times can be compared.
        cautions: What else a reader should know.
    """

    baseline: Header
    candidate: Header
    cases: tuple[CaseComparison, ...]
    machines: str = ""
    cautions: tuple[str, ...] = ()
    counts: Mapping[Class, int] = field(init=False)

    def __post_init__(self) -> None:
        counted = Counter(item.kind for item in self.cases)
        object.__setattr__(self, "counts", {kind: counted[kind] for kind in CLASSES})
        planned = {*self.baseline.planned, *self.candidate.planned}
        seen = Counter(item.case for item in self.cases)
        lost, twice = planned - seen.keys(), [case for case, times in seen.items() if times > 1]
        if lost or twice or sum(self.counts.values()) != len(seen):
            raise CompareError(
                f"the classes do not add up: {len(self.cases)} entries for {len(planned)} planned "
                f"cases, {len(lost)} of them missing, {len(twice)} twice; this is a bug of "
                "compilegate"
            )

    def of(self, *kinds: Class) -> Iterator[CaseComparison]:
        """The cases of some classes."""
        return (item for item in self.cases if item.kind in kinds)


def compare(
    baseline: Archive, candidate: Archive, slowdowns: Mapping[str, Slowdown] | None = None
) -> Comparison:
    """Compare two stored runs.

    Args:
        baseline: The run of what is in use.
        candidate: The run of what is to take its place.
        slowdowns: What live pairs showed, by case.

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
            slowdown=(slowdowns or {}).get(case),
        )

    compared = parallel.over(tuple(dict.fromkeys((*candidate.cases, *baseline.cases))), one)
    used = {device_of(item.case) for item in compared}
    differ = "; ".join(text for device, text in machines.items() if text and device in used)
    return Comparison(
        baseline.header,
        candidate.header,
        tuple(compared),
        differ,
        (
            *incomplete("baseline", baseline),
            *incomplete("candidate", candidate),
            *revisions(baseline.header, candidate.header),
        ),
    )


def compare_case(
    case: str,
    before: Seen,
    now: Seen,
    *,
    times_compare: bool = True,
    slowdown: Slowdown | None = None,
) -> CaseComparison:
    """Compare one case.

    Args:
        case: Its id.
        before: What the baseline holds of it.
        now: What the candidate holds of it.
        times_compare: Whether both ran on the same machine.
        slowdown: What live pairs showed of its speed.
    """
    absent = _absent(case, before, now)
    if absent is not None:
        return absent
    assert before.digest is not None
    assert now.digest is not None
    if why := incomparable(before.digest, now.digest):
        newly = _failure(now) if not _failure(before) else ""
        doubt = f"fails now, and cannot be compared: {newly}" if newly else ""
        also = f"; {doubt}" if doubt else ""
        return CaseComparison(case, "not comparable", (Change("", "note", why + also),), doubt)
    half = now.digest.tf32 or precision_of(case) != "f32"
    found = list(changes_of(before, now, half=half, times_compare=times_compare))
    if slowdown is not None:
        found = [change for change in found if change.aspect != SPEED]
        found += of_pairs(slowdown)
    unjudged = verdict_changes.unjudged(before.verdicts, now.verdicts)
    doubt = f"not judged now: {', '.join(unjudged)}" if unjudged else ""
    return CaseComparison(case, _class(found), tuple(found), doubt)


def compare_unfinished(case: str, before: Seen, now: Seen) -> CaseComparison:
    """Compare a case that was observed in a session which ended before it came to be compared.

    What is worse already counts; the rest is open.

    Args:
        case: Its id.
        before: What the baseline holds of it.
        now: What the candidate holds of it.
    """
    found = compare_case(case, before, now)
    if found.kind in WORSE or before.digest is None:
        return found
    text = "observed, but the session ended before it was judged"
    return CaseComparison(case, "inconclusive", (Change("", "unclear", text), *found.changes), text)


def _absent(case: str, before: Seen, now: Seen) -> CaseComparison | None:
    """The class of a case that one of the runs, or both, did not observe."""
    lacking = _unavailable(before.digest), _unavailable(now.digest)
    kind: Class
    text = doubt = ""
    if not now.planned:
        kind, text = "gone", "the candidate's plan does not have it"
    elif now.digest is None:
        kind, text = "gone", "planned, but not observed"
    elif all(lacking):
        kind, text = "not comparable", f"unavailable in both: {lacking[1]}"
    elif lacking[1]:
        kind, text = "gone" if before.digest else "new", f"not observed: {lacking[1]}"
    elif not before.planned:
        fails = _failure(now)
        kind, text = "new", f"not in the baseline{f'; fails: {fails}' if fails else ''}"
    elif before.digest is None:
        kind, text = "new", "planned in the baseline, but not observed there"
        doubt = text
    elif lacking[0]:
        kind, text = "new", f"not observed in the baseline: {lacking[0]}"
    else:
        return None
    return CaseComparison(
        case, kind, (Change("", "note", text),), text if kind == "gone" else doubt
    )


def _failure(seen: Seen) -> str:
    """How a case fails: its ending, or the aspects that fail; empty where none does."""
    if seen.digest is not None and seen.digest.failure is not None:
        return ending(seen.digest)
    return ", ".join(failing(seen.verdicts))


def _unavailable(digest: Digest | None) -> str:
    if digest is None or digest.status != "unavailable" or digest.failure is None:
        return ""
    return digest.failure.message


def changes_of(before: Seen, now: Seen, *, half: bool, times_compare: bool) -> Iterator[Change]:
    """Everything that changed, of a case that both runs observed and that can be compared.

    Args:
        before: What the baseline holds of it.
        now: What the candidate holds of it.
        half: Whether it computes in half precision.
        times_compare: Whether both ran on the same machine.
    """
    then, digest = before.digest, now.digest
    assert then is not None
    assert digest is not None
    if then.failure is not None or digest.failure is not None:
        yield from verdict_changes.of_endings(before, now)
        return
    yield from verdict_changes.of_verdicts(
        before.verdicts, now.verdicts, times_compare=times_compare
    )
    yield from fact_changes.of_differences(then, digest)
    yield from fact_changes.of_numerics(then, digest, half=half)
    if then.capture is not None and digest.capture is not None and then.capture.graphs:
        yield from fact_changes.of_breaks(then.capture, digest.capture)
        if ("vary" in then.wants) == ("vary" in digest.wants):
            yield from fact_changes.of_recompilations(then.capture, digest.capture)
    yield from fact_changes.of_memory(then, digest)
    if times_compare:
        yield from fact_changes.of_times(then, digest)


def of_pairs(slowdown: Slowdown) -> Iterator[Change]:
    """What live pairs make of a case."""
    fell, low, high = slowdown.change_percent, slowdown.low, slowdown.high
    turned = "fell" if fell >= 0 else "rose"
    if fell < 0:
        fell, low, high = -fell, -high, -low
    text = f"{slowdown.cause}: the speedup {turned} by {fell:.1f}%"
    if slowdown.cause == "no change" or not (slowdown.judged or fell >= WORTH_TELLING):
        return
    if slowdown.judged:
        text += f" [{low:.1f}%, {high:.1f}%]"
    if slowdown.cause == "unsettled":
        yield Change(
            SPEED, "unclear", f"{text} (a suspect; its pairs neither confirm nor clear it)"
        )
    elif not slowdown.judged:
        yield Change(SPEED, "note", f"{text} (indicative: one pair of processes)")
    elif slowdown.cause == "compiled slower":
        yield Change(SPEED, "worse", text)
    elif slowdown.cause == "compiled faster":
        yield Change(SPEED, "better", text)
    else:
        yield Change(SPEED, "note", text)


#: The effects that decide a class, the first that occurs.
_DECIDES: tuple[tuple[Effect, Class], ...] = (
    ("broken", "broken"),
    ("worse", "regressed"),
    ("fixed", "fixed"),
    ("unclear", "inconclusive"),
    ("better", "improved"),
)


def _class(found: Sequence[Change]) -> Class:
    effects = {change.effect for change in found}
    return next((kind for effect, kind in _DECIDES if effect in effects), "unchanged")
