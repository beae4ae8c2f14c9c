"""The culprits of a run, as the groups of cases that reports show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compilegate.culprits.grouping import FAILED, Culprit, Failure, culprits, in_order
from compilegate.culprits.known import Known, unmatched
from compilegate.reports.case_groups import CaseGroup, gravity
from compilegate.runs.archive import Archive

#: How many cases of a culprit are named where its details are unfolded.
_NAMED = 50


def of_run(run: Archive, known: Sequence[Known] = ()) -> list[Culprit]:
    """Return the culprits of a stored run.

    Args:
        run: The run.
        known: What a team knows.
    """
    return culprits(_failures(run), known)


def _failures(run: Archive) -> Iterator[Failure]:
    for case in run.cases:
        record = run.seen(case)
        outcomes = {verdict.outcome for verdict in record.verdicts.values()}
        if record.observation is None or outcomes.isdisjoint(FAILED):
            continue  # complete verdicts have tracebacks: most cases need none
        for verdict in in_order(run.verdicts(case)):
            if verdict.outcome in FAILED:
                yield Failure(record.observation, verdict)


def unmatched_in(run: Archive, known: Sequence[Known]) -> list[str]:
    """Return a line for each entry of a team that names no failure of a stored run."""
    return unmatched(known, (verdict for case in run.cases for verdict in run.verdicts(case)))


def groups(found: Sequence[Culprit], *, expected: bool = False) -> list[CaseGroup]:
    """Return culprits as groups of cases, the gravest aspect first.

    Args:
        found: All culprits of a run.
        expected: Whether to return those that are expected, and not the others.
    """
    chosen = [_group(culprit) for culprit in found if culprit.is_expected == expected]
    return sorted(chosen, key=lambda group: gravity(group.aspect))


def _group(culprit: Culprit) -> CaseGroup:
    cases = culprit.cases
    more = f" and {len(cases) - _NAMED} more" if len(cases) > _NAMED else ""
    return CaseGroup(
        "expected_failure" if culprit.is_expected else "failed",
        tuple(cases),
        culprit.aspect,
        culprit.labelled,
        (
            f"cases: {', '.join(cases[:_NAMED])}{more}",
            f"aspects: {', '.join(culprit.aspects)}",
        ),
        report=culprit.report,
    )
