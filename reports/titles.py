"""The title of a report: one phrase on which a reader can act."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from compilegate.judging import completeness
from compilegate.records.case import device_of
from compilegate.records.environment import Environment
from compilegate.reports.case_result import CaseResult
from compilegate.reports.text import count
from compilegate.upgrade.decision import Decision


def of_cases(results: Mapping[str, CaseResult], why_nothing: str = "") -> str:
    """Return the title of one run: how many cases it has, and how many are not good.

    Args:
        results: The results of all planned cases.
        why_nothing: Why nothing was judged, for the case that nothing was.
    """
    if not is_judged(results):
        reason = _why_unjudged(results.values()) or why_nothing or _NO_VERDICT
        return f"nothing was judged: {reason} ({count(len(results), 'case')})"
    counts = Counter(result.outcome for result in results.values())
    parts = [count(len(results), "case")]
    parts.append(f"{counts['failed']} failed" if counts["failed"] else "none failed")
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
