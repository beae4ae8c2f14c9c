"""Commands that a person pastes, from the folder where the person is.

They name this interpreter where ``python`` on the path is another one, and the suites as this
installation has them: by path in a checkout, by package elsewhere.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from compilegate.layout import PACKAGE, SUITES
from compilegate.records.observation import Observation
from compilegate.records.run import Header
from compilegate.runs.slim import SlimObservation

#: The options of a session that name files which the command needs, too.
_FILE_OPTIONS = ("--zoo", "--budgets")
#: pytest's options that choose its configuration, its root and its plugins.
_CONFIG_OPTIONS = (
    *("-c", "--config-file", "--rootdir", "--confcutdir"),
    *("-o", "--override-ini", "-p"),
)


def python() -> str:
    """Return how a shell calls this interpreter: ``python``, or its path where that is another."""
    return "python" if _is_here("python") else sys.executable


def pytest_words() -> list[str]:
    """Return how a shell calls the pytest of this interpreter."""
    return ["pytest"] if _is_here("pytest") else [python(), "-m", "pytest"]


def _is_here(name: str) -> bool:
    """Whether the program of this name on the path belongs to this interpreter."""
    found = shutil.which(name)
    return found is not None and Path(found).absolute().parent == Path(sys.executable).parent


def suites_words() -> list[str]:
    """Return the arguments of pytest that name all suites, from the current folder."""
    is_checkout = SUITES.parent != PACKAGE
    if is_checkout and SUITES.is_relative_to(Path.cwd()):
        return [f"{as_seen(str(SUITES))}/"]
    return ["--pyargs", "compilegate.suites"]


def session_words(header: Header) -> list[str]:
    """Return the words of a session with the files and the settings of a run.

    Args:
        header: The header of the run.
    """
    words = [*pytest_words(), *suites_words(), *files_of(header)]
    return [*words, *setting_words(header.seed, header.backend, tf32=header.tf32)]


#: As many cases as a command names; with more, it runs the whole tier.
_NAMED = 6


def paired_words(
    header: Header, cases: Sequence[str], python: str, devices: Sequence[str]
) -> list[str]:
    """Return the words of a session that compares costs in live pairs of two environments.

    Args:
        header: The header of a run of the environment that may be worse.
        cases: The cases to compare; with many, or with none, the session compares the whole tier.
        python: The interpreter of the other environment.
        devices: The devices of the cases.
    """
    words = session_words(header)
    words += ["-m", " or ".join({"cuda": "gpu"}.get(device, device) for device in devices)]
    words += ["--tier", header.tier[devices[0]]] if devices[0] in header.tier else []
    if len(cases) <= _NAMED:
        words += [word for case in cases for word in ("--cases", case)]
    return [*words, "--baseline-python", python]


def setting_words(seed: int, backend: str, *, tf32: bool) -> list[str]:
    """Return the options for settings that are not the defaults."""
    words = ["--seed", str(seed)] if seed else []
    words += ["--backend", backend] if backend != "inductor" else []
    return [*words, *(["--tf32"] if tf32 else [])]


def files_of(header: Header, *names: str) -> list[str]:
    """Return the words that name the user's files of a run, as :func:`file_options` does.

    A run of an earlier version holds only the arguments of its session.
    """
    words = header.files or header.arguments
    return [
        as_seen(word) if index % 2 else word
        for index, word in enumerate(file_options(words, *names))
    ]


def resuming_words(arguments: Sequence[str], name: str) -> list[str]:
    """Return the words of a session that continues another.

    Args:
        arguments: The arguments of the session to continue.
        name: The name of its run.
    """
    words: list[str] = []
    for word in arguments:
        if words and words[-1] in ("--save", "--resume"):
            words.pop()
        elif not word.startswith(("--save=", "--resume=")):
            words.append(word)
    return [*pytest_words(), *words, "--resume", name]


def command(
    observed: Observation | SlimObservation,
    files: Iterable[str],
    python: str = "python",
    import_folders: Iterable[str] = (),
) -> str:
    """Return the command that observes a case in the foreground, with the options that it had.

    Args:
        observed: The case.
        files: The words that name the user's files, such as ``--zoo FILE``.
        python: How a shell calls the interpreter.
        import_folders: The folders of pytest's setting ``pythonpath``: outside of pytest, a
            variable names them.
    """
    words = [python, "-m", "compilegate", "observe", observed.case, *files]
    words += setting_words(observed.seed, observed.backend, tf32=observed.tf32)
    words += ["--cold"] if observed.cold else []
    return f"{_setting_path(import_folders)}{shlex.join(words)}"


def _setting_path(folders: Iterable[str]) -> str:
    """Return how a shell adds folders to ``PYTHONPATH`` for the command that follows."""
    added = list(folders)
    inherited = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    follow = f'{os.pathsep}"$PYTHONPATH"' if set(inherited) - {*added} else ""
    seen = shlex.quote(os.pathsep.join(map(as_seen, added)))
    return f"PYTHONPATH={seen}{follow} " if added else ""


def config_options(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the words that choose pytest's configuration, its root and its plugins.

    Args:
        arguments: The arguments of the session.
    """
    for index, word in enumerate(arguments):
        if word in _CONFIG_OPTIONS:
            yield from arguments[index : index + 2]
        elif word.startswith("--"):
            yield from [word] if word.partition("=")[0] in _CONFIG_OPTIONS else []
        elif word[:2] in _CONFIG_OPTIONS:  # such as -ofoo=bar
            yield word


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
