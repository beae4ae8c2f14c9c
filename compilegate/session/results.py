"""What a session knows about its cases so far. The terminal's plugin reads it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import pytest

from compilegate.culprits.grouping import FAILED, Culprit, Failure, culprits, in_order
from compilegate.judging.aspects import ASPECTS
from compilegate.judging.completeness import is_judged, is_open
from compilegate.records.case import Case, case_id_of, suite_of
from compilegate.records.observation import Observation
from compilegate.records.verdict import Verdict
from compilegate.runs.packed import PackedObservations
from compilegate.session.plan import Plan
from compilegate.session.workers import count_of
from compilegate.upgrade.comparison import Comparison

#: Where the process that reports keeps the results: the only process, or xdist's controller.
RESULTS = pytest.StashKey["Results"]()


class Results:
    """The results of a session, from the reports of all workers.

    Args:
        config: pytest's configuration.
        plan: The plan of the session.

    Attributes:
        plan: The plan of the session.
        expected: The number of tests of each case, by case id.
        verdicts: The verdicts on each case, by case id.
        comparison: The comparison with an earlier run, when the session is over.
        budget_changes: The lines that report what ``--budgets-update`` changed.
        saved: The cases whose observation the run file holds.
        triage_s: The seconds that triage took.
    """

    def __init__(self, config: pytest.Config, plan: Plan) -> None:
        self.plan = plan
        self.expected: Counter[str] = Counter()
        self.verdicts: dict[str, list[Verdict]] = {}
        self.comparison: Comparison | None = None
        self.budget_changes: list[str] = []
        resumed = plan.stored if plan.options.resume else None
        self.saved: set[str] = set(resumed.observations) if resumed else set()
        self._config = config
        self._started, self.triage_s = time.monotonic(), 0.0
        #: The number of tests of each case that have ended.
        self._ended: Counter[str] = Counter()
        #: The number of tests of each case that wait for all other cases.
        self._last: Counter[str] = Counter()
        self._observations = PackedObservations()
        #: What observing each case took, in seconds by purpose: of each version in an upgrade.
        self._spent: dict[str, list[Mapping[str, float]]] = {}
        self._weights: dict[str, float] = {}
        #: When the first test of each case began.
        self._began: dict[str, float] = {}

    def expect(self, nodeids: Iterable[str]) -> None:
        """Note the tests that pytest collected, by node id."""
        known = {case.id for case in self.plan.cases} | self._gone
        ours = [nodeid for nodeid in nodeids if suite_of(nodeid) in ASPECTS]
        cases = Counter(map(case_id_of, ours))
        self.expected = Counter({case_id: n for case_id, n in cases.items() if case_id in known})

    def expect_last(self, nodeids: Iterable[str]) -> None:
        """Note the tests that wait for all other cases."""
        self._last = Counter(map(case_id_of, nodeids))

    def add(self, observation: Observation, *before: Observation) -> None:
        """Note an observation.

        Args:
            observation: What was measured.
            before: The same under the PyTorch in use, in an upgrade.
        """
        self._observations[observation.case] = observation
        self._spent[observation.case] = [made.spent_s for made in (observation, *before)]

    def note_start(self, nodeid: str) -> None:
        """Note that a test begins."""
        case_id = case_id_of(nodeid)
        if case_id in self.expected:
            self._began.setdefault(case_id, time.monotonic())

    def note_report(self, report: Any) -> None:
        """Note that a phase of a test has ended."""
        case_id = case_id_of(report.nodeid)
        if case_id in self.expected:
            self._ended[case_id] += report.when == "teardown"

    @property
    def _gone(self) -> set[str]:
        """Cases of the earlier run that the zoo no longer has."""
        return {case.id for case in self.plan.before.gone} if self.plan.before else set()

    @property
    def planned(self) -> list[str]:
        """The cases that this machine can observe. The others are skipped, with the reason.

        In a replay, the list includes the cases that the run lacks; otherwise the run would seem
        complete. Selecting by keyword or node id leaves them out, as neither applies to them.
        """
        gone = self._gone
        here = [
            case_id
            for case_id in self.expected
            if case_id not in gone and not self.plan.lacks(Case.parse(case_id))
        ]
        config = self._config
        picked = config.getoption("keyword") or any("::" in argument for argument in config.args)
        return here if picked else [*here, *self.plan.unobserved]

    def is_over(self, case_id: str) -> bool:
        """Whether all tests of a case have ended, except those that wait for all other cases."""
        return self._ended[case_id] >= max(self.expected[case_id] - self._last[case_id], 1)

    @property
    def is_whole(self) -> bool:
        """Whether every planned case was observed."""
        return all(map(self.has, self.planned))

    def has(self, case_id: str) -> bool:
        """Whether this session or the stored run observed a case."""
        return case_id in self._observations or case_id in self._stored

    def observation(self, case_id: str) -> Observation | None:
        """Return the observation of a case, from this session or from the stored run."""
        return self._observations.get(case_id) or self._stored.get(case_id)

    @property
    def _stored(self) -> Mapping[str, Observation]:
        return self.plan.stored.observations if self.plan.stored else {}

    @property
    def unsaved(self) -> Sequence[str]:
        """The cases that were observed, or judged again, and that the run file does not hold."""
        return [case_id for case_id in self._observations if case_id not in self.saved]

    @property
    def spent_s(self) -> Sequence[Mapping[str, float]]:
        """What each observation of this session took, in seconds by purpose."""
        return [] if self.plan.replays else list(chain.from_iterable(self._spent.values()))

    @property
    def fresh(self) -> int:
        """The number of cases that this session observed."""
        return 0 if self.plan.replays else len(self._observations)

    @property
    def observed(self) -> int:
        """The number of cases that this session need not observe any more."""
        return 0 if self.plan.replays else sum(map(self.has, self.expected))

    @property
    def left(self) -> float | None:
        """What is not observed yet, as a multiple of what this session observed.

        A case weighs what it took in an earlier run. Where there is none, it weighs as many tests
        as it has: practices have tests of their own.
        """
        observed = sum(map(self._weight, self._observations.keys() & self.expected.keys()))
        missing = (case_id for case_id in self.planned if not self.has(case_id))
        return sum(map(self._weight, missing)) / observed if observed else None

    def _weight(self, case_id: str) -> float:
        if case_id not in self._weights:
            earlier, case = self.plan.earlier, Case.parse(case_id)
            tests = 1 if earlier.taken else self.expected[case_id]
            self._weights[case_id] = tests * earlier.seconds(case)
        return self._weights[case_id]

    @property
    def compiled_anything(self) -> bool:
        """Whether any verdict is more than a reason for skipping."""
        return any(map(is_judged, self.verdicts.values()))

    @property
    def is_open(self) -> bool:
        """Whether the result of any planned case is unknown."""
        return any(
            is_open(self.observation(case_id), self.verdicts.get(case_id, ()))
            for case_id in self.planned
        )

    @property
    def is_inconclusive(self) -> bool:
        """Whether any verdict is inconclusive."""
        return any(v.outcome == "inconclusive" for some in self.verdicts.values() for v in some)

    @property
    def culprits(self) -> list[Culprit]:
        """The culprits of all failures so far, also of the expected ones."""
        failures = (
            Failure(observation, verdict)
            for case_id in self.planned
            for verdict in in_order(self.verdicts.get(case_id, ()))
            if verdict.outcome in FAILED and (observation := self.observation(case_id)) is not None
        )
        return culprits(failures, self.plan.known)

    @property
    def wall_s(self) -> float:
        """The seconds since the session began, without those of triage."""
        return time.monotonic() - self._started - self.triage_s

    @property
    def workers(self) -> int:
        """The number of processes that run tests."""
        return count_of(self._config)

    @property
    def unfinished(self) -> dict[str, float]:
        """The cases that a stop of the session interrupted, with the seconds since each began."""
        now = time.monotonic()
        return {
            case_id: now - began
            for case_id, began in self._began.items()
            if not self._ended[case_id] and not self.has(case_id)
        }
