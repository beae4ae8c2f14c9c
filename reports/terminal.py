"""Tells the terminal, and a GitHub job: a line a case, then the summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compilegate.records.case import case_id_of
from compilegate.records.pair import Pair
from compilegate.reports import comparison_text, github_job, summary
from compilegate.reports.case_figures import Standing
from compilegate.runs.archive import Seen
from compilegate.session.recording import Recorder
from compilegate.upgrade import paired_speed

#: Reproduction commands shown at the end.
_SHOWN = 5
#: What shows what a comparison folds away here.
_UNFOLD = "python -m compilegate compare … --all shows them"


class Teller:
    """Plugin of the process that reports.

    Args:
        config: pytest's.
        recorder: What is known of the session.
    """

    def __init__(self, config: pytest.Config, recorder: Recorder) -> None:
        self._config = config
        self._recorder = recorder
        self._letters: dict[str, str] = {}
        self._told: set[str] = set()
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self._shows_lines:
            reporter.showfspath = False  # a case is a line of its own; its tests need no file names

    @property
    def _shows_lines(self) -> bool:
        """Whether a case is one line of ours; ``-v`` gives pytest's, ``-q`` its dots."""
        return bool(self._config.get_verbosity() == 0)

    # A line a case.

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Leaves the letters to the case's line; *inconclusive* is a category of its own."""
        if case_id_of(report.nodeid) not in self._recorder.expected:
            return None
        if getattr(report, "inconclusive", False):
            return "inconclusive", "" if self._shows_lines else "?", "INCONCLUSIVE"
        if self._shows_lines and report.when == "call" and not hasattr(report, "wasxfail"):
            return report.outcome, "", report.outcome.upper()
        if self._shows_lines and hasattr(report, "wasxfail"):
            return "xfailed", "", "XFAIL"
        if self._shows_lines and report.outcome != "passed":
            return ("error" if report.failed else "skipped"), "", report.outcome.upper()
        return None

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Shows a case when its last test is over."""
        case_id = case_id_of(report.nodeid)
        if case_id not in self._recorder.expected:
            return
        if report.when == "call" or report.outcome != "passed":
            self._letters[case_id] = self._letters.get(case_id, "") + _letter(report)
        if case_id not in self._told and self._recorder.is_over(case_id):
            self._told.add(case_id)
            self._tell_case(case_id)

    def _tell_case(self, case_id: str) -> None:
        observation = self._recorder.observation(case_id)
        if observation is None or not self._shows_lines:
            return
        recorder = self._recorder
        progress = summary.Progress(
            done=len(self._told),
            planned=len(recorder.expected),
            fresh=recorder.fresh,
            elapsed_s=recorder.wall_s,
        )
        width = max(map(len, recorder.expected))
        letters = self._letters.get(case_id, "")
        verdicts = recorder.verdicts.get(case_id, ())
        self._print(
            summary.case_line(observation, letters, progress, id_width=width),
            failed=any(verdict.outcome == "failed" for verdict in verdicts),
        )

    def pytest_compilegate_pair(self, pair: Pair) -> None:
        """Shows a fresh pair of a suspect."""
        if not self._shows_lines:
            return
        capture: Any = self._config.pluginmanager.get_plugin("capturemanager")
        with capture.global_and_fixture_disabled():  # it is made while a test is set up
            change = paired_speed.screen(pair).change
            self._print(f"suspect {pair.case}, fresh pair {pair.number}: {change}", failed=False)

    def _print(self, line: str, *, failed: bool) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line, **({"red": True} if failed else {}))

    # The summary.

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Shows the decision, the summary, and the ways on."""
        if not self._recorder.expected:
            return
        self._tell_decision(terminalreporter)
        self._tell_outcome(terminalreporter)
        self._tell_where(terminalreporter)
        recorder = self._recorder
        cases = {case_id: self._standing(case_id) for case_id in recorder.planned}
        for line in github_job.tell(cases, recorder.gate.environment, recorder.comparison):
            terminalreporter.write_line(line)

    def _tell_decision(self, terminalreporter: Any) -> None:
        comparison = self._recorder.comparison
        if comparison is not None:
            decision, *lines = comparison_text.comparison_lines(comparison, unfold=_UNFOLD)
            terminalreporter.section(f"compilegate: {decision}", sep="=", bold=True)
            for line in lines:
                terminalreporter.write_line(line)
        elif self._recorder.gate.before is not None:
            terminalreporter.write_line(
                "no decision: suites/test_upgrade.py is not among the tests that were selected",
                yellow=True,
            )

    def _tell_outcome(self, terminalreporter: Any) -> None:
        recorder = self._recorder
        gate, verdicts = recorder.gate, recorder.verdicts
        observations = {c: o for c in recorder.expected if (o := recorder.observation(c))}
        shown = summary.summarize(
            summary.Outcome(
                environment=gate.environment,
                planned=len(recorder.planned),
                observations=observations,
                verdicts=verdicts,
                wall_s=recorder.wall_s,
                made=recorder.made,
                workers=recorder.workers,
                unfinished_s=recorder.unfinished_s,
            )
        )
        terminalreporter.section(comparison_text.plain(shown.title), sep="=", bold=True)
        for line in shown.lines:
            terminalreporter.write_line(comparison_text.plain(line))
        failed = [c for c, some in verdicts.items() if any(v.outcome == "failed" for v in some)]
        for case_id in [case_id for case_id in failed if case_id in observations][:_SHOWN]:
            again = gate.reproduction(observations[case_id])
            terminalreporter.write_line(f"see it again: {again}")
        for line in gate.unmatched_budgets:
            terminalreporter.write_line(f"unused budget entry: {line}", yellow=True)
        if self._config.getoption("budgets_update"):
            for line in recorder.budget_changes or ["budget updated: no budget needed to change"]:
                terminalreporter.write_line(line)

    def _tell_where(self, terminalreporter: Any) -> None:
        writer, beside = self._recorder.writer, self._recorder.beside.path
        if writer is None:
            return
        if writer.trouble:
            terminalreporter.write_line(
                f"the run file could not be written to its end: {writer.trouble}; "
                "what it holds is readable, --resume goes on from there",
                red=True,
            )
        terminalreporter.write_line(f"run file: {_relative(writer.path)}")
        if beside is not None:
            terminalreporter.write_line(f"baseline's: {_relative(beside)}")
        if not self._recorder.is_whole:
            also = ", with the same --baseline-python," if beside is not None else ""
            terminalreporter.write_line(f"--resume {writer.path.stem}{also} goes on from there")

    def _standing(self, case_id: str) -> Standing:
        observation = self._recorder.observation(case_id)
        if observation is None:
            return Standing.of(Seen(planned=True))
        return Standing.of(Seen.of(observation, self._recorder.verdicts.get(case_id, ())))


def _letter(report: Any) -> str:
    if hasattr(report, "wasxfail"):
        return "x"
    if getattr(report, "inconclusive", False):
        return "?"
    if report.failed:
        return "F" if report.when == "call" else "E"
    return "s" if report.skipped else "."


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
