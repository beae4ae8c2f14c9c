"""The title of a report: one phrase on which a reader can act."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from compilegate.judging import completeness
from compilegate.records.case import device_of
from compilegate.records.environment import Environment
from compilegate.records.run import Header
from compilegate.reports.case_result import CaseResult
from compilegate.reports.text import count
from compilegate.upgrade.decision import Decision

#: What a title begins with, where other programs print, too.
_NAME = "compilegate"


def of_cases(results: Mapping[str, CaseResult], why_nothing: str = "", *, died: int = 0) -> str:
    """Return the title of one run: how many cases it has, and how many are not good.

    Args:
        results: The results of all planned cases.
        why_nothing: Why nothing was judged, for the case that nothing was.
        died: How many workers of pytest-xdist died. pytest counts each as a failed test.
    """
    if not is_judged(results):
        reason = _why_unjudged(results.values()) or why_nothing or _NO_VERDICT
        return f"nothing was judged: {reason} ({count(len(results), 'case')})"
    counts = Counter(result.outcome for result in results.values())
    parts = [count(len(results), "case")]
    parts.append(f"{counts['failed']} failed" if counts["failed"] else "none failed")
    if died:
        parts.append(f"{count(died, 'worker')} died")
    if counts["inconclusive"]:
        parts.append(f"{counts['inconclusive']} inconclusive")
    if counts["expected_failure"]:
        parts.append(count(counts["expected_failure"], "expected failure"))
    if missing := sum(not result.observed for result in results.values()):
        parts.append(f"{missing} not observed")
    seen = [result for result in results.values() if result.observed]
    if unjudged := [result for result in seen if result.outcome in (None, "skipped")]:
        parts.append(f"{len(unjudged)} not judged: {_why_unjudged(unjudged) or _NO_VERDICT}")
    return ", ".join(parts)


def notes_on(header: Header) -> list[str]:
    """Return what a reader of a run should know before its results, a line each."""
    if not header.shard:
        return []
    return [f"Only shard {header.shard}: cases of other shards are not included."]


def of_decision(decision: Decision, results: Mapping[str, CaseResult]) -> str:
    """Return the title of an upgrade, without the versions: the answer and the evidence.

    Args:
        decision: The decision.
        results: The results of the candidate's cases.
    """
    because = f": {decision.because}" if decision.because else ""
    undecided = sum(result.outcome == "inconclusive" for result in results.values())
    # The decision counts only cases whose change is inconclusive.
    is_counted = "inconclusive" in f"{because} {decision.counts}"
    also = f", {undecided} with an inconclusive verdict" if undecided and not is_counted else ""
    return f"{decision.answer}{because} ({decision.counts}{also})"


def fitted(title: str, place: str, room: int) -> list[str]:
    """Return a title for a terminal: with its place if both fit into one line.

    Args:
        title: The title.
        place: What it is about; empty if that is not known.
        room: The characters of a line.

    Returns:
        The first line, then the lines under it.
    """
    whole = f"{_NAME}: {with_place(place, title)}"
    if len(whole) <= room:
        return [whole]
    below = [place] if place else []
    if len(short := f"{_NAME}: {title}") <= room:
        return [short, *below]
    return [_NAME, title, *below]


def fitted_decision(decision: Decision, results: Mapping[str, CaseResult], room: int) -> list[str]:
    """Return the title of an upgrade for a terminal. A long reason stands under the answer.

    Args:
        decision: The decision.
        results: The results of the candidate's cases.
        room: The characters of a line.

    Returns:
        The first line, then the lines under it.
    """
    lines = fitted(of_decision(decision, results), decision.where, room)
    if lines[0] != _NAME:
        return lines
    reason = lines[1].removeprefix(f"{decision.answer}: ")
    return [f"{_NAME}: {decision.answer}", reason, *lines[2:]]


def is_judged(results: Mapping[str, CaseResult]) -> bool:
    """Return whether any verdict was reached; a skipped test reaches none."""
    return any(completeness.is_judged(result.verdicts.values()) for result in results.values())


def is_open(results: Mapping[str, CaseResult]) -> bool:
    """Return whether a run without failures is no success: the result of a case is unknown."""
    return not is_judged(results) or any(result.is_open for result in results.values())


#: Why a case that was observed has no verdict.
_NO_VERDICT = "the run has no verdicts"


def _why_unjudged(results: Iterable[CaseResult]) -> str:
    """Return the libraries that cases lack, else the most common reason of skipped verdicts."""
    results = list(results)
    if needed := sorted({result.needs for result in results} - {""}):
        return f"needs {', '.join(needed)}"
    verdicts = (verdict for result in results for verdict in result.verdicts.values())
    reasons = Counter(verdict.summary for verdict in verdicts)
    return reasons.most_common(1)[0][0] if reasons else ""


def where(environment: Environment | None, case_ids: Iterable[str]) -> str:
    """Return the PyTorch and the devices that cases ran on; empty where they are unknown."""
    if environment is None:
        return ""
    kinds = sorted({device_of(case_id) for case_id in case_ids})
    names = [device.name for kind in kinds if (device := environment.device(kind))]
    version = environment.versions.get("torch", "?").partition("+")[0]
    return f"torch {version}{' on ' * bool(names)}{' and '.join(names)}"


def with_place(place: str, title: str) -> str:
    """Return a title behind the place that it is about, if that is known."""
    return f"{place}: {title}" if place else title
