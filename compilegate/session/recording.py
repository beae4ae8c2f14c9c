"""Writes the run file from the reports of all workers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compilegate.judging.aspects import Aspect
from compilegate.records.case import Case, case_id_of
from compilegate.records.observation import Observation
from compilegate.records.pair import Pair
from compilegate.records.run import Closing, encode
from compilegate.records.verdict import Verdict
from compilegate.runs.reader import decode
from compilegate.session import attributing, forwarding, junit_properties
from compilegate.session.budget_updates import update_budgets
from compilegate.session.comparing import SessionComparison
from compilegate.session.results import Results
from compilegate.session.run_files import RunFiles
from compilegate.session.run_header import header_of
from compilegate.upgrade.case_comparison import CaseComparison
from compilegate.upgrade.comparison import Comparison, dump
from compilegate.upgrade.decision import decide

#: The statuses of a session that ran to its end: the decision on an upgrade replaces them.
_JUDGED = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)
#: The status of a session that left cases open or could not write them down, as of ``compilegate
#: markdown``: "cannot say".
INCOMPLETE = 2


class Recorder:
    """Plugin of the process that reports: the only process, or xdist's controller.

    Args:
        config: pytest's configuration.
        results: The results of the session, which the recorder fills.
    """

    def __init__(self, config: pytest.Config, results: Results) -> None:
        self._config = config
        self._results = results
        self._plan = results.plan
        self._comparison = SessionComparison(results)
        self._proposals: dict[Case, dict[str, Any]] = {}
        #: Whether a test failed that belongs to no suite.
        self._failed_otherwise = False
        self._files = results.plan.run_files

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the collected tests, and begin the run file.

        https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_collection_finish
        """
        if session.items:
            self._begin([item.nodeid for item in session.items])
        aspects = ((item, Aspect.of(item)) for item in session.items)
        waiting = (item for item, aspect in aspects if aspect and self._plan.waits(aspect))
        self._results.expect_last(item.nodeid for item in waiting)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Note the tests that the first worker collected: all workers collect the same.

        https://pytest-xdist.readthedocs.io/en/stable/how-it-works.html
        """
        if not self._results.expected:
            self._begin(ids)

    def _begin(self, nodeids: list[str]) -> None:
        self._results.expect(nodeids)
        self._comparison.expect(nodeids)
        environment = self._plan.environment
        if not self._results.expected or environment is None or self._files is None:
            return
        if not self._plan.options.resume:
            paired = self._plan.paired
            header = header_of(self._results, environment)
            self._files.begin(header, paired.environment if paired else None)
        if self._files.trouble:
            raise pytest.UsageError(f"cannot write {self._files.trouble}; nothing was observed")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins, perhaps on a worker.

        https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_runtest_logstart
        """
        self._results.note_start(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write the records that came with a report, before the terminal shows it.

        https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_runtest_logreport
        """
        case_id = case_id_of(report.nodeid)
        if case_id in self._results.expected:
            self._add(case_id, report)
        elif report.failed:
            self._failed_otherwise = True
        self._results.note_report(report)

    def _add(self, case_id: str, report: Any) -> None:
        # pytest keeps each report until its end. The lines of an observation are long.
        lines, forwarded = (
            vars(report).pop(f"compilegate_{name}", None) for name in ("records", "forwarded")
        )
        if lines:
            self.pytest_compilegate_observed(lines)
        if forwarded:
            for lines in forwarded["observed"]:
                self._config.hook.pytest_compilegate_observed(records=lines)
            for line in forwarded["pairs"]:
                self._config.hook.pytest_compilegate_pair(pair=decode(line))
        if line := getattr(report, "compilegate_verdict", None):
            self._results.verdicts.setdefault(case_id, []).append(self._record(line))
            self._record_baseline(report.compilegate_baseline_verdict)
            if proposal := json.loads(report.compilegate_proposal):
                self._proposals.setdefault(Case.parse(case_id), {}).update(proposal)
        if line := getattr(report, "compilegate_comparison", None):
            self._comparison.add(case_id, msgspec.json.decode(line, type=CaseComparison))

    @pytest.hookimpl(tryfirst=True)
    def pytest_compilegate_observed(self, records: Mapping[str, Sequence[str]]) -> None:
        """Write the records of a case."""
        observation, *pairs = [self._record(line) for line in records["candidate"]]
        forwarding.note(self._plan.paired, *pairs)
        self._results.add(observation, *self._record_baseline(*records["baseline"]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_compilegate_pair(self, pair: Pair) -> None:
        """Write a fresh pair of a suspect, before the terminal shows it."""
        self._record(encode(pair))
        forwarding.note(self._plan.paired, pair)

    def _record(self, line: str) -> Any:
        record = decode(line)
        if self._files is None or self._is_stored(record):
            return record
        is_saved = self._files.candidate.write(line)
        if isinstance(record, Observation):
            note = self._results.saved.add if is_saved else self._results.saved.discard
            note(record.case)
        if not is_saved:
            _stop(self._config)
        return record

    def _is_stored(self, record: Any) -> bool:
        """Whether the run that is resumed has this verdict, so that it is not written twice."""
        stored = self._plan.stored if self._plan.options.resume else None
        if stored is None or not isinstance(record, Verdict):
            return False
        return stored.verdicts.get((record.case, record.aspect)) == record

    def _record_baseline(self, *lines: str) -> list[Any]:
        records: list[Any] = list(map(decode, filter(None, lines)))
        forwarding.note(self._plan.paired, *records)
        if self._files is not None:
            self._files.write_baseline(*lines)
            if self._files.trouble:
                _stop(self._config)
        return records

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Close the run file. A session that left a case open is no success.

        https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_sessionfinish
        """
        results = self._results
        if self._files is not None:
            for line in forwarding.take_waiting(self._files.candidate.path):
                self._record(line.rstrip())
        results.comparison = self._comparison.complete()
        if results.comparison is not None and exitstatus in _JUDGED:
            results.comparison = self._attributed(results.comparison)
        if self._files is not None:
            self._close(self._files)
        if self._config.getoption("budgets_update"):
            results.budget_changes = update_budgets(self._plan, self._proposals)
        if exitstatus == 0 and results.expected:
            if not results.compiled_anything:
                session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
            elif results.is_open:
                session.exitstatus = INCOMPLETE
        handed_over = self._config.getoption("comparison_file")
        if results.comparison is not None and handed_over:
            Path(handed_over).write_bytes(dump(results.comparison))
        if results.comparison is not None and session.exitstatus in _JUDGED:
            session.exitstatus = self._exit_status(decide(results.comparison).exit_status)
        if self._files is not None and self._files.trouble and session.exitstatus == 0:
            session.exitstatus = INCOMPLETE
        junit_properties.note(self._config)

    def _attributed(self, comparison: Comparison) -> Comparison:
        """Find what makes cases worse, where that is asked for, and write it down."""
        known = {item.case: item.attribution for item in comparison.cases}
        if self._plan.options.attribute:
            comparison = attributing.attribute(self._config, self._plan, comparison)
        for item in comparison.cases:
            is_new = item.attribution != known[item.case] or self._plan.replays
            if item.attribution is not None and is_new:
                self._record(encode(item.attribution))
        return comparison

    def _exit_status(self, decision: int) -> int:
        """Return the status of a session that compares: the decision's, unless other tests failed.

        A failure that the PyTorch in use has, too, does not stop an upgrade.
        """
        is_strict = self._config.getoption("fail_inconclusive")
        fails = self._failed_otherwise or (is_strict and self._results.is_inconclusive)
        return pytest.ExitCode.TESTS_FAILED if decision == 0 and fails else decision

    def _close(self, files: RunFiles) -> None:
        stored = self._plan.stored if self._plan.options.resume else None
        planned = stored.header.planned if stored else self._results.planned
        is_whole = bool(self._results.expected) and self._results.saved.issuperset(planned)
        if is_whole and not files.trouble:
            closing = Closing(cases=len(planned), wall_s=self._results.wall_s)
            files.candidate.write(closing)
            files.write_baseline(encode(closing))
        files.close()
        if not files.candidate.holds_records:
            self._results.saved.clear()  # it was removed


def _stop(config: pytest.Config) -> None:
    """Stop the session, since a run file cannot be written: what follows would be lost."""
    plugins = config.pluginmanager
    # Under xdist, its controller runs the loop, and does not look at the session.
    controller: Any = plugins.get_plugin("dsession")
    loop: Any = controller or plugins.get_plugin("session")
    if loop.shouldstop:
        return
    loop.shouldstop = "compilegate: the run file cannot be written"
    if controller is not None:
        controller.sched.abandon()
