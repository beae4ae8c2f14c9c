"""Compares a session with an earlier run, case by case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compilegate.records.case import Case, case_id_of, suite_of
from compilegate.runs.archive import CaseRecord
from compilegate.session.results import Results
from compilegate.session.run_header import header_of
from compilegate.upgrade.case_comparison import CaseComparison, compare_unfinished
from compilegate.upgrade.comparison import Comparison, attributed


class SessionComparison:
    """Collects the comparisons of cases, and completes them when the session is over.

    Args:
        results: The results of the session.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        #: The cases that the upgrade suite judges.
        self._expected: set[str] = set()
        self._found: dict[str, CaseComparison] = {}

    def expect(self, nodeids: Iterable[str]) -> None:
        """Note the tests that pytest collected, by node id."""
        upgrade = (nodeid for nodeid in nodeids if suite_of(nodeid) == "upgrade")
        self._expected = {case_id_of(nodeid) for nodeid in upgrade}

    def add(self, case_id: str, comparison: CaseComparison) -> None:
        """Note the comparison of a case."""
        self._found[case_id] = comparison

    def complete(self) -> Comparison | None:
        """Return the comparison of the session; None if there is nothing to compare with."""
        results, plan = self._results, self._results.plan
        if plan.before is None or plan.environment is None or not self._expected:
            return None
        asked = [case_id for case_id in results.expected if case_id in self._expected]
        found = dict(self._found)
        for case_id in asked:
            observation = results.observation(case_id)
            if case_id not in found and observation is not None:
                case = Case.parse(case_id)
                found[case_id] = compare_unfinished(
                    case_id,
                    plan.before.seen(case),
                    CaseRecord.of(observation, results.verdicts.get(case_id, ())),
                    times_compare=plan.before.times_compare(case, plan.environment),
                    paired=plan.before.is_paired,
                    work_growth=plan.budget(case).max_compile_calls_growth,
                )
        comparison = plan.before.compare(header_of(results, plan.environment), asked, found)
        known = plan.stored.attributions if plan.stored and plan.paired else {}
        return replace(comparison, cases=tuple(attributed(comparison.cases, known)))
