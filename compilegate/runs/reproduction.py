"""The command that observes a case again, from the checkout."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from compilegate.records.observation import Observation
from compilegate.runs.digest import Digest


def command(observed: Observation | Digest, zoos: Iterable[str]) -> str:
    """The command, with the options that the case was observed with.

    Args:
        observed: The case.
        zoos: The files of the user's models.
    """
    words = ["python", "-m", "compilegate.observe", observed.case]
    for file in zoos:
        words += ["--zoo", file]
    words += ["--seed", str(observed.seed)] if observed.seed else []
    words += ["--backend", observed.backend] if observed.backend != "inductor" else []
    words += ["--cold"] if observed.cold else []
    words += ["--tf32"] if observed.tf32 else []
    return shlex.join(words)


def zoos_in(arguments: Sequence[str]) -> Iterator[str]:
    """The files of the user's models among the arguments of a session."""
    for index, word in enumerate(arguments):
        if word == "--zoo" and index + 1 < len(arguments):
            yield arguments[index + 1]
        elif word.startswith("--zoo="):
            yield word.removeprefix("--zoo=")
