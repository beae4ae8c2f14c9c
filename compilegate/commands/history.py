"""``compilegate history DIR|RUN…``: on which nights a figure of a case changed, and with what."""

from __future__ import annotations

import argparse
import datetime
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compilegate.commands import stored_runs
from compilegate.commands.observe import ArgumentError
from compilegate.history import change_points, events, nights
from compilegate.history.change_points import OtavaMissingError
from compilegate.processes.interpreter import check_interpreter
from compilegate.records import environment_changes
from compilegate.runs import files
from compilegate.runs.reader import RunError

#: How many notes on runs that cannot be read are shown, if there are no others.
_NOTES = 3
#: What the exit status of the confirming session says.
_CONFIRMED = {0: "fresh pairs do not confirm the change", 1: "fresh pairs confirm the change"}
#: What is printed where nothing could differ between the two sides of a pair.
_ONE_ENVIRONMENT = (
    "fresh pairs cannot say whether the change is there: --last-good and --python have the same "
    "environment"
)


def add_parser(commands: Any) -> None:
    """Add the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "history",
        parents=[stored_runs.options()],
        help="find the nights on which a figure of a case changed",
        description="Follow each figure of each case over the runs of many nights, and report the "
        "night on which it changed, with what changed in the environment. Runs of different "
        "machines, tiers and backends are separate series. Needs Apache Otava: "
        f"{change_points.INSTALL}.",
        epilog="Exit status: 0 nothing became worse, 1 a figure became worse and still is, 2 there "
        "are too few nights, or the input is wrong. With --confirm: 0 pairs do not confirm the "
        "change, 1 pairs confirm it, 2 pairs cannot decide.",
    )
    parser.add_argument(
        "run", nargs="+", metavar="DIR|RUN", help="a folder of run files, a run file, or its name"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=Path("history.html"),
        help="write the page to this file (default: %(default)s)",
    )
    parser.add_argument(
        "--since",
        metavar="DATE",
        type=_date,
        help="count only changes from this night on, such as 2026-11-18; the page shows all",
    )
    parser.add_argument(
        "--issues",
        metavar="FILE",
        type=Path,
        help="write an issue for each cause of worse figures to this file, for .ci/publish-issues",
    )
    parser.add_argument(
        "--workflow", metavar="NAME", default="compilegate", help="the prefix of issue titles"
    )
    parser.add_argument(
        "--last-good",
        metavar="PYTHON",
        default="",
        help="the interpreter of the last night before the newest change",
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        default="",
        help="the interpreter that runs pytest, in the newest environment (default: this one, or "
        "the first python on PATH if this one lacks pytest)",
    )
    parser.add_argument(
        "--confirm",
        action="store_true",
        help="time the newest change again in fresh pairs; needs --last-good",
    )
    parser.set_defaults(do=run)


def _date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no date: write 2026-11-18") from error


def run(options: argparse.Namespace) -> int:
    """Print what changed, and write the page.

    Returns:
        The exit status: 0 nothing became worse, 1 a figure did, 2 there are too few nights.

    Raises:
        ArgumentError: Otava is missing, or ``--confirm`` lacks the interpreter.
        ObserverError: ``--last-good`` is no interpreter with torch.
        RunError: No run can be used, or the page cannot be written.
    """
    from compilegate.reports import (  # noqa: PLC0415 (a page needs Jinja)
        history_page,
        history_text,
        issues,
    )

    if options.confirm and not options.last_good:
        raise ArgumentError("--confirm needs --last-good PYTHON: the last good environment")
    if options.last_good:
        check_interpreter(options.last_good, "--last-good")
    try:
        change_points.require()
    except OtavaMissingError as error:
        raise ArgumentError(str(error)) from error
    history = nights.read(nights.paths_of(options.run, options.runs))
    if not history.nights:
        raise RunError(f"no run could be read: {_first(history.notes)}")
    trends = events.trends_of(history)
    every = events.events_of(trends)
    newest = [event for event in every if event.night.date >= (options.since or "")]
    words = events.confirming_words(newest, options.last_good, options.python)
    for line in history_text.lines(history, trends, newest, words):
        print(line)
    _write(options.output, history_page.page(history, trends, every, words))
    print(options.output, flush=True)
    if options.issues:
        found = issues.of_events(newest, words, options.workflow)
        _write(options.issues, issues.dump(found))
    if options.confirm:
        return _confirm(words, options.runs)
    if any(event.is_worse and event.holds for event in newest):
        return 1
    return 0 if any(trend.is_judged for trend in trends) else 2


def _first(notes: Sequence[str]) -> str:
    """Return some notes in one line: those on a folder of damaged runs are alike."""
    others = len(notes) - _NOTES
    return "; ".join([*notes[:_NOTES], *([f"{others} more"] if others > 0 else [])])


def _confirm(words: list[str], runs: Path) -> int:
    """Run the confirming command, with its output in this terminal.

    Args:
        words: The command.
        runs: The folder where its session keeps its run.

    Returns:
        The exit status: 0 pairs do not confirm the change, 1 they do, 2 they cannot say.
    """
    if not words:
        print("nothing is to be confirmed")
        return 0
    name = f"confirm-{datetime.datetime.now(datetime.UTC):%Y-%m-%d-%H%M%S-%f}"
    status = subprocess.run([*words, "--save", name], check=False).returncode
    if status in _CONFIRMED and _compared_one_environment(name, runs):
        print(_ONE_ENVIRONMENT, flush=True)
        return 2
    print(_CONFIRMED.get(status, "fresh pairs cannot say whether the change is there"), flush=True)
    return status if status in _CONFIRMED else 2


def _compared_one_environment(name: str, runs: Path) -> bool:
    """Return whether a session compared an environment with itself. Unknown without its runs."""
    try:
        sides = [files.read(files.find(run, runs)) for run in (f"{name}.baseline", name)]
    except RunError:
        return False
    before, now = (side.header.environment for side in sides)
    return not environment_changes.deciding(before, now)


def _write(target: Path, text: str) -> None:
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror}") from error
