"""What changed for a case from one run to another, as its verdicts and its ending tell.

Every rule, here and in ``fact_changes``, is a pure function of what both runs hold of the case.
It says what it saw, and what that makes of the case: *broken* and *worse* count against the
candidate, *fixed* and *better* never do, *unclear* is left open, a *note* is for the reader only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from compilegate.judging.aspects import ASPECTS, aspect_named
from compilegate.records.observation import Stage
from compilegate.records.verdict import Outcome
from compilegate.runs.archive import Seen
from compilegate.runs.digest import Digest, Judged

Effect = Literal["broken", "worse", "unclear", "fixed", "better", "note"]

#: The aspect that two processes cannot settle: it is told, and judged from live pairs only.
SPEED = next(aspect.name for aspect in ASPECTS.values() if aspect.change == "pairs")

_STAGES: tuple[str, ...] = get_args(Stage)
_FAILS = ("failed", "expected_failure")


@dataclass(frozen=True)
class Change:
    """Something that is otherwise now.

    Attributes:
        aspect: The suite's aspect that it concerns, or ``stage compile`` where a case ended early.
        effect: What it makes of the case.
        text: One line: what it was and what it is.
        details: Further lines.
        proposal: Budget values that would hold what became better.
    """

    aspect: str
    effect: Effect
    text: str
    details: tuple[str, ...] = ()
    proposal: Mapping[str, Any] = field(default_factory=dict)


def of_endings(before: Seen, now: Seen) -> Iterator[Change]:
    """A case that ended early, in one of the runs or in both: at which stage."""
    then, digest = before.digest, now.digest
    assert then is not None
    assert digest is not None
    if digest.failure is not None:
        aspect, text = f"stage {digest.failure.stage}", ending(digest)
        if then.failure is None:
            if failing(before.verdicts) and not _passing(before.verdicts):
                text = f"failed before, ends earlier now: {text}"
                yield Change(aspect, "worse", text, _evidence(digest))
            else:
                yield Change(aspect, "broken", text, _evidence(digest))
        elif (moved := _stage(digest) - _stage(then)) < 0:
            yield Change(aspect, "worse", f"fails earlier: {ending(then)} → {text}")
        elif moved > 0:
            yield Change(aspect, "better", f"comes further: {ending(then)} → {text}")
        elif (then.status, then.failure.kind) != (digest.status, digest.failure.kind):
            yield Change(aspect, "note", f"fails otherwise: {ending(then)} → {text}")
        return
    assert then.failure is not None
    aspect, still = f"stage {then.failure.stage}", failing(now.verdicts)
    if still:
        text = f"runs to its end, but fails in {', '.join(still)}; before: {ending(then)}"
        yield Change(aspect, "better", text)
    else:
        yield Change(aspect, "fixed", f"before: {ending(then)}")


def ending(digest: Digest) -> str:
    """How a case ended that did not come to its end."""
    failure = digest.failure
    assert failure is not None
    what = digest.status.replace("_", " ")
    kind = f"{failure.kind}: " if digest.status == "raised" else ""
    where = f", {failure.call}, where eager returned" if failure.call else ""
    return f"{what} in stage {failure.stage}{where}: {kind}{failure.message}"


def _evidence(digest: Digest) -> tuple[str, ...]:
    failure = digest.failure
    if failure is None:
        return ()
    return tuple((failure.traceback or failure.output).rstrip().splitlines()[-12:])


def _stage(digest: Digest) -> int:
    return _STAGES.index(digest.failure.stage) if digest.failure else len(_STAGES)


def failing(verdicts: Mapping[str, Judged]) -> list[str]:
    """The aspects that fail, expectedly or not."""
    return [aspect for aspect, verdict in verdicts.items() if verdict.outcome in _FAILS]


def _passing(verdicts: Mapping[str, Judged]) -> list[str]:
    return [aspect for aspect, verdict in verdicts.items() if verdict.outcome == "passed"]


def of_verdicts(
    before: Mapping[str, Judged], now: Mapping[str, Judged], *, times_compare: bool
) -> Iterator[Change]:
    """Aspects with another outcome. Those that say the same (nothing was compiled) are one."""
    alike: dict[tuple[Effect, str], list[str]] = {}
    for aspect in dict.fromkeys((*now, *before)):
        entry = aspect_named(aspect)
        if entry.change == "itself" or (entry.of_machine and not times_compare):
            continue
        if turned := _turn(aspect, before.get(aspect), now.get(aspect)):
            alike.setdefault(turned, []).append(aspect)
    for (effect, text), aspects in alike.items():
        yield Change(", ".join(aspects), effect, text)


def unjudged(before: Mapping[str, Judged], now: Mapping[str, Judged]) -> list[str]:
    """Aspects that the baseline judged and the candidate's session did not ask for."""
    return [
        aspect
        for aspect, verdict in before.items()
        if verdict.outcome != "skipped"
        and aspect not in now
        and aspect_named(aspect).change == "verdict"
    ]


def _turn(aspect: str, then: Judged | None, now: Judged | None) -> tuple[Effect, str] | None:
    """What a verdict's change comes to; None where there is nothing to tell."""
    was: Outcome = then.outcome if then else "skipped"
    outcome: Outcome = now.outcome if now else "skipped"
    summary = now.summary if now else "no such verdict"
    failed, fails = was in _FAILS, outcome in _FAILS
    left_open = outcome == "skipped" and was != "skipped" and not aspect_named(aspect).is_occasional
    turned: tuple[Effect, str] | None = None
    if aspect == SPEED:
        if failed != fails:
            turned = "note", f"{was} → {outcome} (indicative): {summary}"
    elif fails and not failed:
        turned = _newly_failing(aspect, was, outcome, summary)
    elif failed and outcome == "passed" and then is not None:
        turned = (
            "better" if aspect_named(aspect).change == "threshold" else "fixed",
            f"before: {then.summary}",
        )
    elif outcome == "inconclusive" or left_open:
        turned = "unclear", f"{was} → {outcome}: {summary}"
    return turned


def _newly_failing(aspect: str, was: Outcome, outcome: Outcome, text: str) -> tuple[Effect, str]:
    if outcome == "expected_failure":
        text = f"an expected failure now: {text}"
    match was:
        case "passed":
            return "worse" if aspect_named(aspect).change == "threshold" else "broken", text
        case "skipped":
            return "unclear", f"fails, and was not judged before: {text}"
        case _:
            return "worse", f"{was} before, fails now: {text}"
