"""``compilegate triage RUN``: a report for each culprit that PyTorch's maintainers can act on."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compilegate.commands import stored_runs
from compilegate.commands.observe import ArgumentError
from compilegate.culprits import known
from compilegate.judging import budgets_toml
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.output.visible import visible
from compilegate.processes import interrupts
from compilegate.processes.import_folders import importable
from compilegate.reports.text import count, wrapped
from compilegate.runs import files, hidden_folders, reproduction
from compilegate.runs.files import Run
from compilegate.triage import folders
from compilegate.triage.report.cleaning import without_secrets


def add_parser(commands: Any) -> None:
    """Add the subcommand and its options."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "triage",
        parents=[stored_runs.options()],
        help="find the stage and place of each culprit of a run, and write a report and a script",
        description="For each culprit of a stored run, find the stage of the compiler and the "
        "place in the model, and write a folder with report.md, repro.py and logs.",
        epilog="Exit status: 0 nothing to triage, 1 reports were written, 2 the command line is "
        "wrong, the run cannot be read, no case matches or the folder cannot be written, 130 "
        "Ctrl-C, 143 SIGTERM.",
    )
    parser.add_argument("run", metavar="RUN", help="a run file, or its name in --runs")
    parser.add_argument(
        "cases",
        metavar="CASE",
        nargs="*",
        default=(),  # without it, argparse calls it required
        help="models, or globs on case ids; their expected failures count, too",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=10.0,
        metavar="N",
        help="the time limit for each culprit (default: 10)",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: .triage/RUN")
    parser.add_argument(
        "--known", action="append", default=[], metavar="FILE", help="known culprits (repeatable)"
    )
    parser.set_defaults(do=run)


def run(options: argparse.Namespace) -> int:
    """Triage the culprits of a run.

    Returns:
        The exit status: 0 there is nothing to triage, 1 reports were written.

    Raises:
        ArgumentError: The time is no positive number, or a file of the run is missing.
        RunError: The run cannot be read.
        BudgetError: A file of known culprits is wrong.
    """
    if not options.minutes > 0:
        raise ArgumentError(f"--minutes {options.minutes:g}: give a number above 0")
    path = files.find(options.run, options.runs)
    stored = files.read(path)
    _check(stored, options.cases)
    words = stored.header.files or stored.header.arguments
    own = [Path(f) for f in [*reproduction.file_options(words, "--budgets")][1::2]]
    budgets = budgets_toml.read(own, sorted(SHIPPED_BUDGETS.glob("*.toml")))
    found = folders.suspects(stored, budgets, options.cases, known.read(options.known))
    if not found and options.cases:
        _say("nothing to triage: no case that matches fails")
        return 0
    if not found:
        expected = folders.suspects(stored, budgets, ["*"])
        more = f"; {len(expected)} as expected: name cases to triage them" if expected else ""
        _say(f"nothing to triage{more}")
        return 0
    if missing := [file for file in folders.zoo_files(stored) if not Path(file).is_file()]:
        raise ArgumentError(
            f"the run needs the zoo file {missing[0]}, which is not there: put it back"
        )
    named = options.output or Path(".triage") / files.name_of(path)
    target = folders.unused(named)
    if target != named:
        _say(f"{named} holds the reports of an earlier triage: these go to {target}")
    _refuse_unwritable(target)
    _say(f"{count(len(found), 'culprit')}, {options.minutes:g} min each at most")
    made: list[folders.Triaged] = []
    try:
        with importable(stored.header.import_folders):
            for one in folders.triage(stored, found, target, minutes=options.minutes, say=_say):
                made.append(one)
    except KeyboardInterrupt:
        status = interrupts.INTERRUPTED
    else:
        status = 1
    for line in (*map(folders.summary, made), *folders.conclude(made, target)):
        _say(line)
    if status == interrupts.INTERRUPTED:
        left = len(found) - len(made)
        _say(f"interrupted, {left} of {len(found)} left: what was found is in {target.resolve()}")
    return status


def _refuse_unwritable(folder: Path) -> None:
    """Make the folder of the reports, before minutes are spent on what goes there."""
    try:
        hidden_folders.make(folder)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ArgumentError(
            f"cannot write reports to {folder}: {error.strerror}: name another folder with --output"
        ) from error


def _check(stored: Run, cases: Sequence[str]) -> None:
    """Refuse a run without cases, and globs that match none; say what the run lacks."""
    path, planned = stored.path, len(stored.header.planned)
    if stored.truncated:
        _say(f"{path}: its last line is incomplete and was dropped")
    if not stored.observations:
        raise ArgumentError(f"{path} holds none of its {planned} planned cases: use --resume first")
    if stored.missing:
        _say(f"{path} lacks {len(stored.missing)} of {planned} planned cases")
    for pattern in cases:
        if not any(folders.names_case(pattern, case) for case in stored.observations):
            raise ArgumentError(
                f"no case of {path} matches {pattern!r}: CASE is a model or a glob on case ids"
            )


def _say(text: str) -> None:
    """Print a line, in as many lines as a terminal needs; a file keeps it whole."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    shown = visible(without_secrets(text))
    for line in wrapped(shown, width) if width else [shown]:
        print(line, flush=True)
