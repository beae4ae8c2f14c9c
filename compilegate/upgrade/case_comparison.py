"""One case in two runs: what changed, and the class that the case ends in.

Nothing is judged again: verdicts are the recorded ones; counts, numbers and memory are compared as
they were observed. The modules :mod:`~compilegate.upgrade.verdict_changes` and
:mod:`~compilegate.upgrade.fact_changes` find the changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from compilegate.judging.completeness import ended_in_practice, missing_library
from compilegate.records.attribution import Attribution
from compilegate.records.case import computes_in_half
from compilegate.runs.archive import CaseRecord
from compilegate.runs.slim import SlimObservation, SlimVerdict
from compilegate.upgrade import fact_changes, hazard_changes, verdict_changes
from compilegate.upgrade.comparable import incomparable
from compilegate.upgrade.cost_change import CostChange, open_question
from compilegate.upgrade.costs import COUNTED
from compilegate.upgrade.other_numbers import other_numbers
from compilegate.upgrade.stored_costs import Growth, growths
from compilegate.upgrade.verdict_changes import (
    EAGER,
    SPEED,
    Change,
    Effect,
    accepts,
    describe_failure,
    failing,
    is_judged,
)
from compilegate.upgrade.work_growth import COMPILE_WORK, DEFAULT_ALLOWED

#: In the order in which a reader should look at them.
Class = Literal[
    "broken",
    "regressed",
    "eager regressed",
    "gone",
    "inconclusive",
    "not comparable",
    "fixed",
    "improved",
    "accepted",
    "new",
    "unchanged",
]
CLASSES: tuple[Class, ...] = get_args(Class)
#: The classes that count against the candidate.
WORSE: tuple[Class, ...] = ("broken", "regressed", "eager regressed")

#: The effects that decide a class, the first that occurs.
_DECIDES: tuple[tuple[Effect, Class], ...] = (
    ("broken", "broken"),
    ("worse", "regressed"),
    ("eager", "eager regressed"),
    ("fixed", "fixed"),
    ("unclear", "inconclusive"),
    ("better", "improved"),
)


@dataclass(frozen=True)
class CaseComparison:
    """A case in the baseline's run and in the candidate's.

    Attributes:
        case: Its id.
        kind: Its class.
        changes: What changed; empty for nearly all.
        doubt: Why this case keeps the answer from being *safe*; empty if it does not.
        growths: How its costs grew, where two stored runs of one machine measured them.
        attribution: What makes it worse, where environments between the two were tried.
    """

    case: str
    kind: Class
    changes: tuple[Change, ...] = ()
    doubt: str = ""
    growths: tuple[Growth, ...] = ()
    attribution: Attribution | None = None

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
    def costlier(self) -> str:
        """How a headline counts it if costs are all that is worse: ``slower``; else empty."""
        worse = [change for change in self.changes if change.effect in ("broken", "worse")]
        if not worse or any(change.aspect not in COUNTED for change in worse):
            return ""
        return COUNTED[worse[0].aspect]

    @property
    def has_accepted_cost(self) -> bool:
        """Whether a cost rose and a budgets file accepts that."""
        return any(change.accepted for change in self.changes)


def compare_case(
    case: str,
    before: CaseRecord,
    now: CaseRecord,
    *,
    times_compare: bool = True,
    paired: bool = False,
    costs: Sequence[CostChange] = (),
    work_growth: float = DEFAULT_ALLOWED,
) -> CaseComparison:
    """Compare one case.

    Args:
        case: Its id.
        before: What the baseline holds of it.
        now: What the candidate holds of it.
        times_compare: Whether both ran on the same machine.
        paired: Whether both were observed in one session, in turns.
        costs: What live pairs showed of its costs.
        work_growth: The growth of compile work that its budget allows, as a share.
    """
    absent = _absent(case, before, now)
    if absent is not None:
        return absent
    assert before.observation is not None
    assert now.observation is not None
    if why := incomparable(before.observation, now.observation):
        newly = _failure(now) if not _failure(before) else ""
        doubt = f"fails now, and cannot be compared: {newly}" if newly else ""
        also = f"; {doubt}" if doubt else ""
        return CaseComparison(case, "not comparable", (Change("", "note", why + also),), doubt)
    half = now.observation.tf32 or computes_in_half(case)
    found = list(
        changes_of(before, now, half=half, times_compare=times_compare, work_growth=work_growth)
    )
    effect: Effect = "unclear" if paired else "note"
    other = [*other_numbers(before.observation, now.observation, effect)]
    found += other
    if any(cost.compiled for cost in costs):
        found = [change for change in found if change.aspect != SPEED]
        found += of_pairs(costs, now.verdicts)
    if accepts(now.verdicts, EAGER):
        found = [_accepted(change) if change.effect == "eager" else change for change in found]
    if accepts(now.verdicts, COMPILE_WORK):
        found = [_accepted(change) if _is_more_work(change) else change for change in found]
    grown: tuple[Growth, ...] = ()
    if times_compare and not paired:
        compared = growths(before.observation, now.observation)
        grown = tuple(growth for growth in compared if not accepts(now.verdicts, growth.aspect))
        looks_worse = [_of_growth(growth) for growth in grown if growth.is_worse]
        aspects = {change.aspect for change in looks_worse}
        found = [c for c in found if c.effect != "note" or c.aspect not in aspects] + looks_worse
    unjudged = verdict_changes.unjudged(before.verdicts, now.verdicts)
    doubt = f"not judged now: {', '.join(unjudged)}" if unjudged else ""
    if verdict_changes.unproven(now.observation):
        doubt = describe_failure(now.observation)
    doubt = doubt or verdict_changes.unshown(before, now) or open_question(costs, now.verdicts)
    doubt = doubt or next((change.text for change in other if paired), "")
    slow = next((c for c in found if c.aspect == SPEED and c.effect == "unclear"), None)
    if slow is not None and not doubt and not paired and not any(g.is_worse for g in grown):
        doubt = f"{SPEED} {slow.text}"
    kind = _class(found)
    if kind == "unchanged" and not (is_judged(now.verdicts) or any(c.compiled for c in costs)):
        kind = "inconclusive"
        found.insert(0, Change("", "unclear", "no aspect of it was judged"))
    return CaseComparison(case, kind, tuple(found), doubt, grown)


def accepted(comparison: CaseComparison) -> CaseComparison:
    """Return a comparison that a budgets file accepts: its class does not count."""
    reason = Change("", "note", f"{comparison.kind}: {comparison.reason}")
    return CaseComparison(comparison.case, "accepted", (reason, *comparison.changes))


def _of_growth(growth: Growth) -> Change:
    return Change(growth.aspect, "unclear", growth.text)


def _is_more_work(change: Change) -> bool:
    return (change.aspect, change.effect) == (COMPILE_WORK, "worse")


def _accepted(change: Change) -> Change:
    return replace(change, effect="note", text=f"accepted: {change.text}", accepted=True)


def compare_unfinished(
    case: str,
    before: CaseRecord,
    now: CaseRecord,
    *,
    times_compare: bool,
    paired: bool,
    work_growth: float,
) -> CaseComparison:
    """Compare a case that was observed, but whose session ended before it was compared.

    What is worse already counts; the rest is open. :func:`compare_case` describes the arguments.
    """
    found = compare_case(
        case, before, now, times_compare=times_compare, paired=paired, work_growth=work_growth
    )
    if found.kind in WORSE or before.observation is None:
        return found
    text = "observed, but the session ended before it was judged"
    return CaseComparison(case, "inconclusive", (Change("", "unclear", text), *found.changes), text)


def _absent(case: str, before: CaseRecord, now: CaseRecord) -> CaseComparison | None:
    """Return the class of a case that one of the runs, or both, did not observe."""
    lacking = _unavailable(before.observation), _unavailable(now.observation)
    kind: Class
    text = doubt = ""
    if before.observation is None and now.observation is None:
        kind, text = "not comparable", "observed in neither run"
        doubt = text
    elif not now.planned:
        kind, text = "gone", "not in the candidate's plan"
    elif now.observation is None:
        kind, text = "gone", "planned, but not observed"
    elif all(lacking):
        kind, text = "not comparable", f"unavailable in both: {lacking[1]}"
    elif lacking[1]:
        kind, text = "gone" if before.observation else "new", f"not observed: {lacking[1]}"
    elif not before.planned:
        fails = _failure(now)
        kind, text = "new", f"not in the baseline{f'; fails: {fails}' if fails else ''}"
    elif before.observation is None:
        kind, text = "new", "planned in the baseline, but not observed there"
        doubt = text
    elif verdict_changes.unproven(before.observation):
        kind, text = "new", f"not judged in the baseline: {describe_failure(before.observation)}"
        doubt = text
    elif lacking[0]:
        kind, text = "new", f"not observed in the baseline: {lacking[0]}"
    else:
        return None
    if missing_library(now.observation):
        doubt = text
    return CaseComparison(
        case, kind, (Change("", "note", text),), text if kind == "gone" else doubt
    )


def _failure(record: CaseRecord) -> str:
    """How a case fails: how it ended, or the aspects that fail; empty where none does."""
    if record.observation is not None and record.observation.failure is not None:
        return describe_failure(record.observation)
    return ", ".join(failing(record.verdicts))


def _unavailable(observation: SlimObservation | None) -> str:
    if observation is None or observation.status != "unavailable" or observation.failure is None:
        return ""
    return observation.failure.message


def changes_of(
    before: CaseRecord,
    now: CaseRecord,
    *,
    half: bool,
    times_compare: bool,
    work_growth: float = DEFAULT_ALLOWED,
) -> Iterator[Change]:
    """Find everything that changed in a case that both runs observed and that can be compared.

    Args:
        before: What the baseline holds of it.
        now: What the candidate holds of it.
        half: Whether it computes in half precision.
        times_compare: Whether both ran on the same machine.
        work_growth: The growth of compile work that the case's budget allows, as a share.
    """
    then, later = before.observation, now.observation
    assert then is not None
    assert later is not None
    if then.failure is not None or later.failure is not None:
        yield from verdict_changes.of_failures(before, now)
        if not all(one.failure is None or ended_in_practice(one) for one in (then, later)):
            return
    yield from verdict_changes.of_verdicts(
        before.verdicts, now.verdicts, times_compare=times_compare
    )
    yield from fact_changes.of_eager(then, later)
    yield from fact_changes.of_differences(then, later)
    yield from fact_changes.of_numerics(then, later, half=half)
    if then.capture is not None and later.capture is not None and then.capture.graphs:
        yield from fact_changes.of_breaks(then.capture, later.capture)
        if ("vary" in then.wants) == ("vary" in later.wants):
            yield from fact_changes.of_recompilations(then.capture, later.capture)
    yield from hazard_changes.of_hazards(then, later)
    yield from fact_changes.of_compile_work(then, later, work_growth)
    if times_compare:
        yield from fact_changes.of_memory(then, later)
        yield from fact_changes.of_times(then, later)


def of_pairs(costs: Sequence[CostChange], verdicts: Mapping[str, SlimVerdict]) -> Iterator[Change]:
    """Find the costs that live pairs changed in a case.

    Args:
        costs: What they showed.
        verdicts: The candidate's. A verdict that passed or was expected accepts a growth, and one
            that failed held the case to a narrower budget.
    """
    if lost := next((cost.lost for cost in costs if cost.lost), ""):
        yield Change("", "unclear", lost)
    for cost in costs:
        aspect, outcome = cost.of.aspect, _outcome(verdicts, cost.of.aspect)
        if outcome == "failed" and verdicts[aspect].summary.startswith(cost.of.worse):
            yield Change(aspect, "worse", verdicts[aspect].summary)
            if verdicts[aspect].summary == cost.summary:
                continue
        elif cost.fails and outcome == "passed":
            continue  # a budget allows it
        if cost.fails and outcome == "expected_failure":
            yield Change(aspect, "note", f"accepted: {cost.summary}", accepted=True)
        elif cost.fails:
            yield Change(aspect, "worse", cost.summary)
        elif cost.kind == "unsettled":
            yield Change(aspect, "unclear", cost.summary)
        elif cost.kind in ("worse", "better"):
            yield Change(aspect, "better" if cost.judged else "note", cost.summary)


def _outcome(verdicts: Mapping[str, SlimVerdict], aspect: str) -> str:
    verdict = verdicts.get(aspect)
    return verdict.outcome if verdict is not None else ""


def _class(found: Sequence[Change]) -> Class:
    effects = {change.effect for change in found}
    return next((kind for effect, kind in _DECIDES if effect in effects), "unchanged")
