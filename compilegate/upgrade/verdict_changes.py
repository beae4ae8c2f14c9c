"""What changed in a case from one run to another, by its verdicts and by how it ended.

Every rule, here and in :mod:`compilegate.upgrade.fact_changes`, is a pure function of the case's
records in both runs. It names what changed, and the effect: *broken*, *worse* and *eager* (eager
itself got worse) count against the candidate, *fixed* and *better* never do, *unclear* leaves it
open, a *note* informs the reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from compilegate.judging.aspects import ASPECTS, Aspect, aspect_named
from compilegate.judging.completeness import BEFORE_COMPILING
from compilegate.judging.judge import UNCOMPILED, proves_nothing
from compilegate.records.observation import Stage
from compilegate.records.verdict import Outcome
from compilegate.runs.archive import CaseRecord
from compilegate.runs.slim import SlimObservation, SlimVerdict

Effect = Literal["broken", "worse", "eager", "unclear", "fixed", "better", "note"]

#: The aspect that two processes cannot settle: only live pairs judge its change.
SPEED = next(aspect.name for aspect in ASPECTS.values() if aspect.change == "pairs")
#: The aspect that judges eager itself.
EAGER = "eager"

#: The stages before the results of compiled code.
_BEFORE_RESULTS: Set[Stage] = {*BEFORE_COMPILING, "compile"}
_STAGES: tuple[str, ...] = get_args(Stage)
_FAILS = ("failed", "expected_failure")
_JUDGED = (*_FAILS, "passed")
#: How a case ends that takes its process with it. A program can catch what is raised.
_DEADLY = ("crashed", "timed_out")


@dataclass(frozen=True)
class Change:
    """One difference between the two runs.

    Attributes:
        aspect: The aspect that it concerns, or ``stage compile`` where a case ended early.
        effect: How it counts.
        text: One line: what it was and what it is.
        details: Further lines.
        proposal: Budget values that would keep what became better.
        accepted: Whether a cost rose and a budgets file accepts that.
    """

    aspect: str
    effect: Effect
    text: str
    details: tuple[str, ...] = ()
    proposal: Mapping[str, Any] = field(default_factory=dict)
    accepted: bool = False


class _VerdictChange(NamedTuple):
    """How the verdict on an aspect changed; the same change of several aspects is shown once."""

    effect: Effect
    text: str
    accepted: bool = False


def of_failures(before: CaseRecord, now: CaseRecord) -> Iterator[Change]:
    """Compare the stages at which a case ended early, in one of the runs or in both."""
    then, later = before.observation, now.observation
    assert then is not None
    assert later is not None
    if unproven(later):
        yield Change(f"stage {_STAGES[_stage(later)]}", "unclear", describe_failure(later))
        return
    if later.failure is not None:
        aspect, text = f"stage {later.failure.stage}", describe_failure(later)
        if later.failure.stage == "eager" and then.failure is None:
            yield Change(EAGER, "eager", f"eager ends early now: {text}", _evidence(later))
        elif then.failure is None:
            if failing(before.verdicts) and not _passing(before.verdicts):
                text = f"failed before, ends earlier now: {text}"
                yield Change(aspect, "worse", text, _evidence(later))
            else:
                yield Change(aspect, "broken", text, _evidence(later))
        elif then.status == "raised" and later.status in _DEADLY:
            text = f"takes its process along now: {describe_failure(then)} → {text}"
            yield Change(aspect, "worse", text, _evidence(later))
        elif (stages := _stage(later) - _stage(then)) < 0:
            yield Change(aspect, "worse", f"fails earlier: {describe_failure(then)} → {text}")
        elif stages > 0:
            yield Change(aspect, "better", f"fails later: {describe_failure(then)} → {text}")
        elif (then.status, then.failure.kind) != (later.status, later.failure.kind):
            yield Change(aspect, "note", f"fails differently: {describe_failure(then)} → {text}")
        return
    assert then.failure is not None
    aspect, still = f"stage {then.failure.stage}", failing(now.verdicts)
    if still:
        text = f"completes, but fails in {', '.join(still)}; before: {describe_failure(then)}"
        yield Change(aspect, "better", text)
    else:
        yield Change(aspect, "fixed", f"before: {describe_failure(then)}")


def unshown(before: CaseRecord, now: CaseRecord) -> str:
    """Return why a failure now may be worse than before: the baseline had nothing to compare.

    A case that ended early there, and completes now with wrong numbers, was safe to refuse. One
    that neither version builds, or calls in eager, says nothing about a compiler. Empty otherwise.
    """
    then, later = before.observation, now.observation
    failed = [aspect for aspect, verdict in now.verdicts.items() if verdict.outcome == "failed"]
    if then is None or later is None or then.failure is None or not failed:
        return ""
    if later.failure is None and then.failure.stage in _BEFORE_RESULTS:
        return f"fails in {', '.join(failed)}; before, it had no results: {describe_failure(then)}"
    if later.failure is not None and {then.failure.stage, later.failure.stage} <= {
        *BEFORE_COMPILING
    }:
        return f"in neither version anything was compiled: {describe_failure(later)}"
    return ""


def unproven(observation: SlimObservation) -> bool:
    """Whether the machine ended a case early, which shows nothing about the case."""
    return observation.failure is not None and proves_nothing(observation.failure)


def describe_failure(observation: SlimObservation) -> str:
    """Return how a case ended early, in one line."""
    failure = observation.failure
    assert failure is not None
    what = observation.status.replace("_", " ")
    kind = f"{failure.kind}: " if observation.status == "raised" else ""
    where = f", {failure.call}, where eager returned" if failure.call else ""
    return f"{what} in stage {failure.stage}{where}: {kind}{failure.message}"


def _evidence(observation: SlimObservation) -> tuple[str, ...]:
    failure = observation.failure
    if failure is None:
        return ()
    return tuple((failure.traceback or failure.output).rstrip().splitlines()[-12:])


def _stage(observation: SlimObservation) -> int:
    failure = observation.failure
    return _STAGES.index(failure.stage) if failure else len(_STAGES)


def failing(verdicts: Mapping[str, SlimVerdict]) -> list[str]:
    """Return the aspects that fail, expectedly or not."""
    return [aspect for aspect, verdict in verdicts.items() if verdict.outcome in _FAILS]


def _passing(verdicts: Mapping[str, SlimVerdict]) -> list[str]:
    return [aspect for aspect, verdict in verdicts.items() if verdict.outcome == "passed"]


def is_judged(verdicts: Mapping[str, SlimVerdict]) -> bool:
    """Whether any aspect passed or failed; skipped and inconclusive verdicts decide nothing."""
    return any(verdict.outcome in _JUDGED for verdict in verdicts.values())


def accepts(verdicts: Mapping[str, SlimVerdict], aspect: str) -> bool:
    """Whether a budgets file accepts what an aspect would fail."""
    verdict = verdicts.get(aspect)
    return verdict is not None and verdict.outcome == "expected_failure"


def of_verdicts(
    before: Mapping[str, SlimVerdict], now: Mapping[str, SlimVerdict], *, times_compare: bool
) -> Iterator[Change]:
    """Find the aspects whose outcome changed; those with one and the same text are one change."""
    changed: dict[_VerdictChange, list[str]] = {}
    for aspect in dict.fromkeys((*now, *before)):
        entry = aspect_named(aspect)
        if entry.change == "itself" or (entry.of_machine and not times_compare):
            continue
        if change := _of_verdict(entry, before.get(aspect), now.get(aspect)):
            changed.setdefault(change, []).append(aspect)
    for (effect, text, accepted), aspects in changed.items():
        yield Change(", ".join(aspects), effect, text, accepted=accepted)


def unjudged(before: Mapping[str, SlimVerdict], now: Mapping[str, SlimVerdict]) -> list[str]:
    """Return the aspects that the baseline judged and the candidate's session left out."""
    return [
        aspect
        for aspect, verdict in before.items()
        if verdict.outcome != "skipped"
        and aspect not in now
        and aspect_named(aspect).change == "verdict"
    ]


def _of_verdict(
    aspect: Aspect, then: SlimVerdict | None, now: SlimVerdict | None
) -> _VerdictChange | None:
    """Return how the verdict on an aspect changed; None where nothing changed."""
    was: Outcome = then.outcome if then else "skipped"
    outcome: Outcome = now.outcome if now else "skipped"
    summary = now.summary if now else "no such verdict"
    failed, fails = was in _FAILS, outcome in _FAILS
    left_open = outcome == "skipped" and was != "skipped" and not aspect.is_occasional
    change: _VerdictChange | None = None
    if fails and was in ("passed", "inconclusive") and UNCOMPILED in summary:
        # The first aspect says so, which may be one of costs.
        change = _VerdictChange("broken", summary)
    elif aspect.name == SPEED:  # two processes do not settle it
        if fails and not failed:
            change = _VerdictChange("unclear", f"{was} → {outcome}: {summary}")
        elif failed and not fails:
            change = _VerdictChange("note", f"{was} → {outcome} (indicative): {summary}")
    elif fails and not failed:
        change = _newly_failing(aspect, was, outcome, summary)
    elif failed and outcome == "passed" and then is not None:
        effect: Effect = "better" if aspect.change == "threshold" else "fixed"
        change = _VerdictChange(effect, f"before: {then.summary}")
    elif outcome == "inconclusive" or left_open:
        change = _VerdictChange("unclear", f"{was} → {outcome}: {summary}")
    return change


def _newly_failing(aspect: Aspect, was: Outcome, outcome: Outcome, text: str) -> _VerdictChange:
    """Return the change of an aspect that fails now and did not fail before.

    A cost that a budgets file accepts does not count against the candidate; a wrong result does,
    even if it is expected.
    """
    if outcome == "expected_failure":
        if aspect.group == "cost":
            return _VerdictChange("note", f"accepted: {text}", accepted=True)
        text = f"an expected failure now: {text}"
    match was:
        case "passed":
            return _VerdictChange("worse" if aspect.change == "threshold" else "broken", text)
        case "skipped":
            return _VerdictChange("unclear", f"fails, and was not judged before: {text}")
        case _:
            return _VerdictChange("worse", f"{was} before, fails now: {text}")
