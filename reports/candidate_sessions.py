"""Several candidates: one session for each, then one table that names the newest safe one.

A session observes one candidate. ``--candidate`` given several times therefore starts a session for
each, one after the other, so that none disturbs the timing of another.
"""

from __future__ import annotations

import datetime
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from _pytest.config import create_terminal_writer

from compilegate.processes.child_process import ObserverError
from compilegate.processes.interpreter import check_interpreter
from compilegate.reports import candidates_text
from compilegate.reports.comparison_text import NARROWEST
from compilegate.session.clean_terminal import clean_writer
from compilegate.session.options import Options, judges_suites
from compilegate.upgrade import comparison as comparisons
from compilegate.upgrade.comparison import Comparison

#: The options of one session that each session gets a value of its own for.
_OWN = ("--candidate", "--save")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Run a session for each candidate if there are several; else leave it to pytest.

    https://docs.pytest.org/en/stable/reference/reference.html#std-hook-pytest_cmdline_main
    """
    if not judges_suites(config) or config.getoption("collectonly"):
        return None
    candidates: Sequence[str] = config.getoption("candidates")
    if len(candidates) < 2:
        return None
    options = Options.of(config)
    _refuse(options)
    try:
        for path in candidates:
            check_interpreter(path, "--candidate")
    except ObserverError as error:
        raise pytest.UsageError(str(error)) from error
    base = options.save or f"{datetime.datetime.now():%Y-%m-%d-%H%M%S}"
    names = [f"{base}-{label}" for label in labels(candidates)]
    terminal = clean_writer(create_terminal_writer(config, sys.stdout))
    found: dict[str, Comparison] = {}
    try:
        for number, (name, path) in enumerate(zip(names, candidates, strict=True), start=1):
            terminal.sep("=", f"candidate {number} of {len(candidates)}: {path}", bold=True)
            made = _session(config, path, name)
            if isinstance(made, int):
                return made
            found[name] = made
    except KeyboardInterrupt:
        return pytest.ExitCode.INTERRUPTED
    terminal.sep("=", "compilegate: the candidates", bold=True)
    for line in candidates_text.candidate_lines(found, width=max(terminal.fullwidth, NARROWEST)):
        terminal.line(line)
    return candidates_text.exit_status(found)


def _refuse(options: Options) -> None:
    """Refuse options that apply to one session only.

    Raises:
        pytest.UsageError: The message says what to do.
    """
    if options.resume:
        raise pytest.UsageError(
            "--resume continues the run of one candidate: name that one with --candidate"
        )
    if not (options.baseline_python or options.baseline_run):
        raise pytest.UsageError(
            "several candidates are compared with the version in use: name it with "
            "--baseline-python or --baseline-run"
        )
    given = [word for word in options.arguments if word.partition("=")[0] == "--candidate"]
    if len(given) != len(options.candidates):
        raise pytest.UsageError(
            "--candidate in the ini setting addopts would be given to each session: name the "
            "candidates on the command line"
        )


def _session(config: pytest.Config, candidate: str, name: str) -> Comparison | int:
    """Run the session of one candidate.

    Returns:
        How it compares; the session's exit status if it ended without that.
    """
    invocation = config.invocation_params
    words = [*without(list(map(str, invocation.args)), _OWN), "--candidate", candidate]
    with tempfile.TemporaryDirectory(prefix="compilegate-") as folder:
        handed = Path(folder) / "comparison.json"
        words += ["--save", name, "--comparison-file", str(handed)]
        command = [sys.executable, "-m", "pytest", *words]
        status = wait_for(command, invocation.dir)
        if not handed.exists():
            return status or pytest.ExitCode.NO_TESTS_COLLECTED
        return comparisons.load(handed.read_bytes())


def wait_for(command: Sequence[str], folder: Path) -> int:
    """Run a session, and return its exit status. What interrupts this process interrupts it, too.

    It then ends with its summary, for which ``subprocess.run`` would not wait.

    Args:
        command: Its command line.
        folder: The folder in which it runs.

    Raises:
        KeyboardInterrupt: The session was interrupted, and has ended.
    """
    with subprocess.Popen(command, cwd=folder) as session:
        try:
            return session.wait()
        except KeyboardInterrupt as error:
            # A terminal has sent it to both already: two at once are one.
            session.send_signal(signal.SIGTERM if str(error) else signal.SIGINT)
            session.wait()
            raise


def without(words: Sequence[str], options: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command line without some options and their values."""
    follows = False
    for word in words:
        if not follows and word.partition("=")[0] not in options:
            yield word
        follows = not follows and word in options


def labels(pythons: Sequence[str]) -> list[str]:
    """Return a short name for each interpreter: its environment's folder, or its number."""
    folders = [_folder(Path(python)) for python in pythons]
    named = [folder for folder in folders if folder]
    if len({*named}) == len(pythons):
        return folders
    return [str(number) for number, _ in enumerate(pythons, start=1)]


def _folder(python: Path) -> str:
    """Return the name of the folder that holds ``bin/python``; empty where it has none."""
    parent = python.absolute().parent
    folder = parent.parent if parent.name == "bin" else parent
    return "".join(c if c.isalnum() or c in "._" else "-" for c in folder.name)
