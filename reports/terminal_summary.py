"""The last block on the terminal: a title, and the evidence under it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from compilegate.culprits.grouping import Culprit
from compilegate.culprits.known import unmatched
from compilegate.output.visible import visible
from compilegate.records.case import case_id_of
from compilegate.reports import case_line, comparison_text, github, session_summary, titles
from compilegate.reports.case_result import CaseResult
from compilegate.reports.comparison_text import NARROWEST, Layout
from compilegate.reports.text import count, wrapped
from compilegate.runs import files, reproduction
from compilegate.runs.archive import CaseRecord
from compilegate.runs.reproduction import as_seen
from compilegate.session.clean_terminal import write_command
from compilegate.session.plan import unmatched_budgets
from compilegate.session.results import Results
from compilegate.upgrade import comparable
from compilegate.upgrade.case_comparison import WORSE
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.decision import decide

#: Cases whose reproduction commands are shown where pytest shows no failures.
_COMMANDS = 5
#: What pytest's ``-r`` is where it is not given.
_DEFAULT_REPORTCHARS = "fE"


class TerminalSummary:
    """Prints the summary of a session.

    Args:
        config: pytest's.
        session: What is known of the session.
        reporter: pytest's terminal reporter.
        page: The job summary of the step.
    """

    def __init__(
        self, config: pytest.Config, session: Results, reporter: Any, page: github.JobSummary
    ) -> None:
        self._config = config
        self._session = session
        self._reporter = reporter
        self._page = page
        self._width = max(reporter._tw.fullwidth, NARROWEST)

    @cached_property
    def _cases(self) -> dict[str, CaseResult]:
        return {case_id: self._result(case_id) for case_id in self._session.planned}

    @cached_property
    def _culprits(self) -> list[Culprit]:
        return self._session.culprits

    def _result(self, case_id: str) -> CaseResult:
        observation = self._session.observation(case_id)
        if observation is None:
            return CaseResult.of(CaseRecord(planned=True))
        verdicts = self._session.verdicts.get(case_id, ())
        return CaseResult.of(CaseRecord.of(observation, verdicts))

    def write(self, letters: str, why_nothing: str) -> None:
        """Print it all: the evidence first, and the decision last, where a reader looks first.

        Args:
            letters: All letters that the lines of cases showed.
            why_nothing: The most common reason of skipped tests.
        """
        session, line = self._session, self._reporter.write_line
        self._leave_failures_to_pytest()
        self._reporter.section("compilegate", sep="-")
        if session.comparison is not None:
            self._write_evidence(session.comparison)
        again, page = session.plan.session_command, _compilegate("html", self._run)
        for text in session_summary.summary_lines(
            self._cases, self._culprits, self._width, again, page
        ):
            line(visible(text))
        if legend := case_line.legend(letters):
            self._write_wrapped(f"letters: {legend}")
        effort = session_summary.Effort(
            session.wall_s, session.spent_s, session.workers, session.unfinished
        )
        for lines in (session_summary.unfinished_lines, session_summary.time_lines):
            for text in lines(effort):
                self._write_wrapped(text)
        self._write_commands()
        self._write_budgets()
        self._write_files()
        environment = session.plan.environment
        shown = github.Shown(self._cases, self._culprits, environment, session.comparison)
        for command in self._page.error_commands(shown):
            write_command(self._reporter, command)
        if trouble := self._page.write(shown):
            line(visible(f"no job summary: {trouble}"))
        self.write_decision(why_nothing)

    def _write_wrapped(self, text: str) -> None:
        """Print a sentence in as many lines as it needs. Commands stay whole, to be copied."""
        for line in wrapped(visible(text), self._width):
            self._reporter.write_line(line)

    def _leave_failures_to_pytest(self) -> None:
        """Keep pytest's short summary from listing failures again, unless ``-r`` asks for it."""
        failed = self._reporter.stats.get("failed", ())
        ours = all(case_id_of(report.nodeid) in self._session.expected for report in failed)
        if ours and self._config.getoption("reportchars") == _DEFAULT_REPORTCHARS:
            self._reporter.reportchars = self._reporter.reportchars.replace("f", "")

    def _write_evidence(self, comparison: Comparison) -> None:
        """Print what a decision rests on; pytest shows the details with the failed tests."""
        unfold = f"to see them: {_compilegate('compare', self._earlier, self._run, '--all')}"
        layout = Layout(details=False, unfold=unfold, width=self._width)
        for line in comparison_text.evidence_lines(comparison, layout):
            self._reporter.write_line(line)
        if text := self._other_failures(comparison):
            self._reporter.write_line(text)

    def write_decision(self, why_nothing: str) -> None:
        """Print the decision where two versions were compared, else how many cases failed.

        Args:
            why_nothing: The most common reason of skipped tests.
        """
        plan, comparison = self._session.plan, self._session.comparison
        of_run = titles.of_cases(self._cases, why_nothing, died=_died(self._reporter))
        if comparison is None:
            lines = titles.fitted(of_run, titles.where(plan.environment, self._cases), self._room)
        else:
            lines = titles.fitted_decision(decide(comparison), self._cases, self._room)
        title, *others = map(visible, lines)
        self._reporter.section(title, sep="=", bold=True)
        for text in others:
            self._write_wrapped(text)
        if comparison is not None and (command := decide(comparison).command):
            self._reporter.write_line(visible(f"to decide, run: {command}"))
        if comparison is None and plan.before is not None:
            self._reporter.write_line(
                "no decision: the selected tests lack test_upgrade.py; to get one, select all "
                f"suites: {' '.join(reproduction.suites_words())}",
                yellow=True,
            )

    @property
    def _room(self) -> int:
        """The characters of a title between its rules."""
        return int(self._width) - len("= ") - len(" =")

    @property
    def _run(self) -> Path:
        """The file of the run that this session writes, or judges again."""
        stored, written = self._session.plan.stored, self._session.plan.run_files
        if written is not None:
            return written.candidate.path
        assert stored is not None, "a session that writes no run file replays one"
        return stored.path

    @property
    def _earlier(self) -> Path:
        """The file of the run that this one is compared with."""
        options = self._session.plan.options
        if options.baseline_run is not None:
            return files.find(options.baseline_run, options.runs)
        written = self._session.plan.run_files
        if written is not None and written.baseline_path is not None:
            return written.baseline_path
        return self._run.with_name(f"{files.name_of(self._run)}.baseline.jsonl")

    def _other_failures(self, comparison: Comparison) -> str:
        """Return how many cases fail although they are no worse; empty where none does."""
        worse = {item.case for item in comparison.of(*WORSE, "gone")}
        failed = {case for case, result in self._cases.items() if result.outcome == "failed"}
        others = len(failed - worse)
        if not others:
            return ""
        fail = "fails" if others == 1 else "fail"
        return f"not counted: {count(others, 'case')} also {fail} under the version in use"

    def _write_commands(self) -> None:
        """Print how to observe failed cases again, where pytest does not show their failures."""
        if self._config.getoption("tbstyle") != "no":
            return
        failed = [case for case, result in self._cases.items() if result.outcome == "failed"]
        for case_id in failed[:_COMMANDS]:
            if (observation := self._session.observation(case_id)) is not None:
                again = self._session.plan.reproduction(observation)
                self._reporter.write_line(visible(f"reproduce: {again}"))

    def _write_budgets(self) -> None:
        for line in _remarks(self._session):
            self._reporter.write_line(visible(line), yellow=True)
        if self._config.getoption("budgets_update"):
            nothing = ["no budget needed to change"]
            for line in self._session.budget_changes or nothing:
                self._reporter.write_line(visible(line))

    def _write_files(self) -> None:
        session, written = self._session, self._session.plan.run_files
        if written is None:
            return
        writer = written.candidate
        if written.trouble:
            lost = session_summary.lost_lines(session.planned, session.saved, session.unsaved)
            for text in (f"writing the run file failed: {written.trouble}", *lost):
                self._reporter.write_line(visible(text), red=True)
        if not writer.holds_records:
            return
        self._reporter.write_line(f"run file: {_relative(writer.path)}")
        if _has_causes(session, self._culprits) and not self._config.getoption("triage"):
            self._reporter.write_line(f"to find the causes: {_compilegate('triage', self._run)}")
        if not writer.is_locked:
            self._reporter.write_line(
                "its file system has no locks: do not let two sessions write it", yellow=True
            )
        if written.baseline_path is not None:
            self._reporter.write_line(
                f"the baseline's run file: {_relative(written.baseline_path)}"
            )
        if (written.trouble or not session.is_whole) and not session.plan.replays:
            words = reproduction.resuming_words(
                session.plan.options.arguments, _name_of(self._run, session.plan.options.runs)
            )
            self._reporter.write_line(f"to continue: {shlex.join(words)}")


def _has_causes(session: Results, culprits: Iterable[Culprit]) -> bool:
    """Whether a case fails that was built. Triage cannot find out why a model is not."""
    red = (case for culprit in culprits if not culprit.is_expected for case in culprit.cases)
    seen = [observation for case in red if (observation := session.observation(case)) is not None]
    return any(one.failure is None or one.failure.stage not in ("start", "build") for one in seen)


def _remarks(session: Results) -> Iterator[str]:
    """Yield entries of the user's files without a use, and what a run lacks that is replayed."""
    plan = session.plan
    for line in unmatched_budgets(plan):
        yield f"unused budget entry: {line}"
    judged = (v for verdicts in session.verdicts.values() for v in verdicts)
    for line in unmatched(plan.known, judged):
        yield f"unused known culprit: {line}"
    if plan.replays and plan.stored is not None:
        yield from titles.notes_on(plan.stored.header)
        if plan.unobserved:  # of the selected cases
            yield from comparable.incomplete("run", plan.stored)


def why_nothing_saved(config: pytest.Config, results: Results | None) -> str:
    """Return why ``--save`` wrote no run file; empty where it wrote one or was not given.

    Args:
        config: pytest's configuration.
        results: The results of the session; None if it judges no suite.
    """
    name = config.getoption("save")
    written = results.plan.run_files if results is not None else None
    if not name or (written is not None and (written.trouble or written.candidate.holds_records)):
        return ""
    if config.getoption("collectonly"):
        why = "--collect-only observes nothing"
    elif results is None:
        why = f"it runs no suite of compilegate: name {' '.join(reproduction.suites_words())}"
    else:
        why = "it selects no case: check --models, --cases, -m and -k"
    return f"--save {name}: this session writes no run file, because {why}"


def _compilegate(command: str, *words: Path | str) -> str:
    """Return a command of compilegate's own, as a person in the current folder types it."""
    named = (as_seen(str(word)) if isinstance(word, Path) else word for word in words)
    return shlex.join([reproduction.python(), "-m", "compilegate", command, *named])


def _name_of(run: Path, folder: Path) -> str:
    """Return the name of a run, or its path where it is in another folder."""
    return run.stem if run.parent.resolve() == folder.resolve() else as_seen(str(run))


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _died(reporter: Any) -> int:
    """Return how many workers died. pytest-xdist reports the test of each as failed in no phase."""
    errors = reporter.stats.get("error", ())
    return sum(getattr(report, "when", "") == "???" for report in errors)
