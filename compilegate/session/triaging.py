"""``--triage``: a report for each culprit, once all cases are observed."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from compilegate.culprits import known
from compilegate.output.visible import visible
from compilegate.processes.child_process import ObserverError
from compilegate.runs import files, reproduction
from compilegate.session import junit_properties
from compilegate.session.plan import INTERRUPTS, PLAN, Plan
from compilegate.session.results import RESULTS
from compilegate.triage import folders
from compilegate.triage.report import found_reports
from compilegate.triage.report.cleaning import without_secrets


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_addoption
    """
    group = parser.getgroup("compilegate")
    group.addoption(
        "--triage",
        action="store_true",
        help="find the stage and place of each culprit, and write a report and a script to "
        ".triage/",
    )
    group.addoption(
        "--triage-minutes",
        type=float,
        default=10.0,
        metavar="N",
        help="the time limit for each culprit (default: %(default)s)",
    )


def triage(config: pytest.Config, reporter: Any) -> bool:
    """Triage what failed, as the option asks for it.

    The summary of the session has been shown, so that a kill loses nothing of it.

    Args:
        config: pytest's configuration.
        reporter: pytest's terminal reporter.

    Returns:
        Whether anything was found that the summary does not say.
    """
    plan = config.stash[PLAN]

    def say(text: str) -> None:
        reporter.write_line(visible(without_secrets(text)), flush=True)

    reporter.section("compilegate triage", sep="-")
    if INTERRUPTS in config.stash and config.stash[INTERRUPTS].came:
        say("nothing was triaged, since the session was interrupted")
        if _run_of(plan).exists():
            say(f"to triage it: {_command(plan)}")
        return False
    began, found = time.monotonic(), False
    try:
        if found := _triage(plan, plan.options.triage_minutes, say):
            junit_properties.rewrite(config)
    except (ObserverError, OSError, KeyboardInterrupt) as error:
        say(f"the triage ended early: {str(error) or 'interrupted'}")
    config.stash[RESULTS].triage_s = time.monotonic() - began
    return found


def _command(plan: Plan) -> str:
    """Return the command that triages the run of a session."""
    words = [reproduction.python(), "-m", "compilegate", "triage"]
    return shlex.join([*words, reproduction.as_seen(str(_run_of(plan)))])


def _triage(plan: Plan, minutes: float, say: Any) -> bool:
    """Triage the failures of a session. Return whether it found anything."""
    path = _run_of(plan)
    run = files.read(path)
    chosen = {case.id for case in plan.cases}
    found = folders.suspects(run, plan.budgets, known=plan.known, among=chosen)
    if not found:
        say("nothing to triage")
        return False
    plan.observer.close()  # its children hold memory that the next ones need
    target = folders.unused(plan.options.runs.parent / found_reports.FOLDER / files.name_of(path))
    made = []
    root = str(plan.options.root)
    try:
        for one in folders.triage(run, found, target, minutes=minutes, say=say, root=root):
            say(folders.summary(one))
            made.append(one)
    except KeyboardInterrupt:
        say(f"the triage ended early: interrupted, {len(found) - len(made)} of {len(found)} left")
    lines = [*folders.conclude(made, target)]
    for line in lines:
        say(line)
    if lines:
        # The summary that follows, and what else shows culprits, knows what triage found.
        plan.known = [*plan.known, *known.read([target / found_reports.FILE])]
    return bool(lines)


def _run_of(plan: Plan) -> Path:
    """Return the file of the run that the session writes, or judges again."""
    if plan.run_files is not None:
        return plan.run_files.candidate.path
    assert plan.stored is not None, "a session that writes no run file replays one"
    return plan.stored.path
