"""The command that observes a case again in the foreground."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from compilegate.records.observation import Observation
from compilegate.runs.slim import SlimObservation

#: The options of a session that name files which the command needs, too.
_FILE_OPTIONS = ("--zoo", "--budgets")


def command(observed: Observation | SlimObservation, files: Iterable[str]) -> str:
    """Return the command, with the options that the case was observed with.

    Args:
        observed: The case.
        files: The words that name the user's files, such as ``--zoo FILE``.
    """
    words = ["python", "-m", "compilegate", "observe", observed.case, *files]
    words += ["--seed", str(observed.seed)] if observed.seed else []
    words += ["--backend", observed.backend] if observed.backend != "inductor" else []
    words += ["--cold"] if observed.cold else []
    words += ["--tf32"] if observed.tf32 else []
    return shlex.join(words)


def file_options(arguments: Sequence[str], *names: str) -> Iterator[str]:
    """Yield the words among the arguments of a session that name the user's files.

    Args:
        arguments: The arguments of the session.
        names: The options to look for; by default all that the command needs.
    """
    names = names or _FILE_OPTIONS
    for index, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name not in names:
            continue
        if equals:
            yield from (name, value)
        elif index + 1 < len(arguments):
            yield from (name, arguments[index + 1])


def as_seen(file: str) -> str:
    """Return a path as a person in the current folder writes it."""
    path = Path(os.path.abspath(file))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
