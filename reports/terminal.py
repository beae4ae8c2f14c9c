"""The terminal's plugin: a line at the start, one for each case, and the summary at the end.

:mod:`compilegate.plugin` names this module as a plugin. It registers a :class:`TerminalReport` in
the process that reports.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from importlib import metadata
from typing import Any

import pytest

from compilegate.output.visible import visible
from compilegate.records.case import case_id_of, suite_of
from compilegate.records.pair import Pair
from compilegate.reports import case_line
from compilegate.reports.comparison_text import NARROWEST
from compilegate.reports.github import JobSummary
from compilegate.reports.status_line import StatusLine, WorkersAtWork, observed_text
from compilegate.reports.terminal_summary import TerminalSummary, why_nothing_saved
from compilegate.reports.text import count, cut, duration
from compilegate.session import triaging
from compilegate.session.clean_terminal import clean
from compilegate.session.options import judges_suites
from compilegate.session.results import RESULTS, Results
from compilegate.upgrade import paired_costs

#: Whether the first line of a session is on the terminal.
_STARTED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> Generator[None]:
    """Print what the session starts, before it waits for it; then register the report."""
    with _starting(session.config):
        yield
    results = session.config.stash.get(RESULTS, None)
    if results is not None:
        report = TerminalReport(session.config, results)
        session.config.pluginmanager.register(report, "compilegate-terminal")


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, Any, Any]:
    """Print what the session starts before ``-n auto`` waits for it, to count the GPUs."""
    with _starting(config):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Report that ``--save`` wrote nothing, also with ``-q``."""
    if line := why_nothing_saved(config, config.stash.get(RESULTS, None)):
        terminalreporter.write_line(line, yellow=True)


@contextlib.contextmanager
def _starting(config: pytest.Config) -> Iterator[None]:
    """Show what the session starts, and for how long it has been starting."""
    reporter = _reporter_at_start(config)
    if reporter is not None and _STARTED not in config.stash:
        config.stash[_STARTED] = True
        reporter.ensure_newline()
        reporter.write_line(cut(visible(starting_line(config)), width_of(reporter)), flush=True)
    starting = Starting(reporter)
    config.pluginmanager.register(starting)
    try:
        yield
    finally:
        starting.clear()
        config.pluginmanager.unregister(starting)


def _reporter_at_start(config: pytest.Config) -> Any:
    """Return the terminal's reporter; None if the session starts silently.

    pytest's own reporter does not exist yet while ``-n auto`` counts the workers.
    """
    is_worker = hasattr(config, "workerinput")
    if is_worker or not judges_suites(config) or config.get_verbosity() < 0:
        return None
    if config.getoption("collectonly") or not config.pluginmanager.hasplugin("terminal"):
        return None
    known = config.pluginmanager.get_plugin("terminalreporter")
    return known or clean(pytest.TerminalReporter(config, sys.stdout))


def starting_line(config: pytest.Config) -> str:
    """Return a line about the first seconds of a session."""
    if replayed := config.getoption("replay"):
        return f"compilegate: reading the run {replayed}"
    candidates = config.getoption("candidates")
    try:
        version = "" if candidates else f" {metadata.version('torch').partition('+')[0]}"
    except metadata.PackageNotFoundError:
        version = ""
    text = (
        f"compilegate: starting torch{version} in {candidates[0] if candidates else sys.executable}"
    )
    baseline = config.getoption("baseline_python")
    return f"{text}, and the version in use in {baseline}" if baseline else text


def width_of(reporter: Any) -> int:
    """Return the characters of a line of pytest's terminal, at least 80."""
    return max(int(reporter._tw.fullwidth), NARROWEST)


class Starting:
    """Shows for how long the session has been starting.

    Args:
        reporter: pytest's terminal reporter.
    """

    def __init__(self, reporter: Any) -> None:
        self._status = StatusLine(reporter)

    def pytest_compilegate_progress(self, case_id: str, elapsed_s: float) -> None:
        """Show that the session still waits for a child."""
        if not case_id:
            self._status.show(f"compilegate: starting, {duration(elapsed_s)}")

    def clear(self) -> None:
        """Remove the line."""
        self._status.clear()


class TerminalReport:
    """Plugin of the process that reports: the only one, or xdist's controller.

    Args:
        config: pytest's.
        results: What is known of the session.
    """

    def __init__(self, config: pytest.Config, results: Results) -> None:
        self._config = config
        self._results = results
        self._letters: dict[str, str] = {}
        self._shown: set[str] = set()
        #: How often each reason of a skipped test occurred.
        self._skips: Counter[str] = Counter()
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self._shows_lines:
            reporter.showfspath = False  # a case is one line; its tests need no file names
        self._status = StatusLine(reporter if self._shows_lines else None)
        is_controller = config.pluginmanager.hasplugin("dsession")
        self._at_work = WorkersAtWork(self._status) if is_controller else None

    @property
    def _shows_lines(self) -> bool:
        """Whether a case is one line; ``-v`` shows pytest's own lines, ``-q`` its dots."""
        return bool(self._config.get_verbosity() == 0)

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Leave the letters to the line of the case; *inconclusive* is a separate category."""
        if case_id_of(report.nodeid) not in self._results.expected:
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

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a worker begins a test. xdist's controller hears of no other progress."""
        case_id = case_id_of(nodeid)
        if self._at_work is not None and case_id in self._results.expected:
            self._at_work.begin(case_id)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Print a case when its last test has ended."""
        self._status.clear()
        case_id = case_id_of(report.nodeid)
        if case_id not in self._results.expected:
            return
        if report.when == "call" or report.outcome != "passed":
            self._letters[case_id] = self._letters.get(case_id, "") + _letter(report)
        if report.skipped and isinstance(report.longrepr, tuple):
            self._skips[report.longrepr[2].removeprefix("Skipped: ")] += 1
        if self._results.is_over(case_id):
            if self._at_work is not None:
                self._at_work.end(case_id)
            if case_id not in self._shown:
                self._shown.add(case_id)
                self._print_case(case_id)

    def _print_case(self, case_id: str) -> None:
        results = self._results
        observation = results.observation(case_id)
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if observation is None or reporter is None or not self._shows_lines:
            return
        progress = case_line.Progress(
            done=len(self._shown),
            planned=len(results.expected),
            fresh=results.fresh,
            elapsed_s=results.wall_s,
            observed=results.observed,
            left=results.left,
        )
        head, *figures = case_line.case_lines(
            observation,
            self._letters.get(case_id, ""),
            progress,
            width=width_of(reporter),
            id_width=max(map(len, results.expected)),
        )
        verdicts = results.verdicts.get(case_id, ())
        failed = any(verdict.outcome == "failed" for verdict in verdicts)
        with self._status.removed():
            reporter.ensure_newline()
            reporter.write_line(head, **({"red": True} if failed else {}))
            for line in figures:
                reporter.write_line(line)

    def pytest_compilegate_pair(self, pair: Pair) -> None:
        """Print the result of a fresh pair of processes."""
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not self._shows_lines:
            return
        # The pair is made while a test is set up.
        with self._without_capture(), self._status.removed():
            seen = (change.brief for change in paired_costs.screen(pair) if change.compiled)
            found = ", ".join(seen) or pair.failure
            reporter.ensure_newline()
            text = f"suspect {pair.case}, fresh pair {pair.number}: {found}"
            reporter.write_line(visible(text))

    def pytest_compilegate_trial(self, changes: str, cases: Sequence[str]) -> None:
        """Print that cases are tried in an environment between the two."""
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not self._shows_lines:
            return
        with self._without_capture(), self._status.removed():
            reporter.ensure_newline()
            reporter.write_line(visible(f"trying {count(len(cases), 'case')} with {changes}"))

    def pytest_compilegate_progress(
        self, case_id: str, stage: str, elapsed_s: float, at_work: str
    ) -> None:
        """Show the stage of the case that runs, and its compilers, where a terminal is attached."""
        position = f"[{len(self._shown) + 1}/{len(self._results.expected)}]"
        text = observed_text(case_id, stage, elapsed_s, at_work)
        with self._without_capture():
            self._status.show(f"{position} {text}")

    def _without_capture(self) -> contextlib.AbstractContextManager[None]:
        capture: Any = self._config.pluginmanager.get_plugin("capturemanager")
        if capture is None:
            return contextlib.nullcontext()
        disabled: contextlib.AbstractContextManager[None] = capture.global_and_fixture_disabled()
        return disabled

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the title and the evidence, after the tables of other plugins. Then triage."""
        if self._at_work is not None:
            self._at_work.stop()
        self._status.clear()
        if not self._results.expected:
            return
        reason = self._skips.most_common(1)[0][0] if self._skips else ""
        letters = "".join(self._letters.values()) if self._shows_lines else ""
        page = JobSummary()
        summary = TerminalSummary(self._config, self._results, terminalreporter, page)
        summary.write(letters, reason)
        if not self._config.getoption("triage"):
            return
        terminalreporter.flush()  # a kill during the triage loses none of it
        summary = TerminalSummary(self._config, self._results, terminalreporter, page)
        if triaging.triage(self._config, terminalreporter):
            summary.write(letters, reason)
        else:
            summary.write_decision(reason)


def _letter(report: Any) -> str:
    if hasattr(report, "wasxfail"):
        return "x"
    if getattr(report, "inconclusive", False):
        return "?"
    if report.failed:
        return case_line.failure_letter(suite_of(report.nodeid)) if report.when == "call" else "E"
    return "s" if report.skipped else "."
