"""The result of one case of a run: its verdicts and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compilegate.judging.completeness import is_open, missing_library, nothing_compiled
from compilegate.records.verdict import Outcome
from compilegate.reports.columns import Figures, figures_of
from compilegate.runs.archive import Archive, CaseRecord
from compilegate.runs.slim import SlimVerdict

#: The outcome of a case is the first of these that any of its verdicts has.
GRAVITY: tuple[Outcome, ...] = (
    "failed",
    "inconclusive",
    "expected_failure",
    "passed",
    "skipped",
)


@dataclass(frozen=True)
class CaseResult:
    """All that a table needs of a case.

    Attributes:
        observed: Whether the case was observed.
        verdicts: The verdicts by aspect.
        figures: What was measured.
        needs: The library that the case lacks; empty if it lacks none.
        is_open: Whether its result is unknown.
        is_judged_as_whole: Whether the case ended early or compiled nothing, so that its aspects
            have one verdict.
    """

    observed: bool
    verdicts: Mapping[str, SlimVerdict]
    figures: Figures
    is_judged_as_whole: bool = False
    needs: str = ""
    is_open: bool = False

    @classmethod
    def of(cls, seen: CaseRecord) -> CaseResult:
        """Return the result of a case of a run."""
        if seen.observation is None:
            return cls(observed=False, verdicts=seen.verdicts, figures=Figures({}), is_open=True)
        whole = seen.observation.failure is not None or nothing_compiled(seen.observation)
        return cls(
            observed=True,
            verdicts=seen.verdicts,
            figures=figures_of(seen.observation),
            is_judged_as_whole=whole,
            needs=missing_library(seen.observation),
            is_open=is_open(seen.observation, seen.verdicts.values()),
        )

    @property
    def outcome(self) -> Outcome | None:
        """The gravest outcome of its verdicts; None where it has none."""
        outcomes = {verdict.outcome for verdict in self.verdicts.values()}
        return next((outcome for outcome in GRAVITY if outcome in outcomes), None)


def results_of(run: Archive) -> dict[str, CaseResult]:
    """Return the results of all cases of a stored run, by case id."""
    return {case: CaseResult.of(run.seen(case)) for case in run.cases}
