"""Lists the models of a user's zoo files, in a short-lived process of the observed interpreter.

The process imports the zoo and these files only, not torch, so that a mistake in a file shows at
once. A file that imports torch itself takes as long as that import.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence

import msgspec

from compilegate.layout import OBSERVER
from compilegate.processes.attempt import death
from compilegate.processes.child_output import output_of
from compilegate.processes.child_process import ObserverError
from compilegate.processes.memory_file import memory_file
from compilegate.zoo.registry import Model, ZooError

#: Importing torch from a cold disk takes long. A file that takes longer than this hangs.
_TIMEOUT_S = 300.0
#: The answer is the last line that the process writes. It is looked for in as many bytes.
_LONGEST_ANSWER = 16 << 20


class _Answer(msgspec.Struct):
    """The answer of the process: its models, or the first mistake."""

    models: list[Model] | None = None
    error: str = ""


def check_files(files: Iterable[str]) -> None:
    """Refuse a zoo file that is not there, or that is a folder.

    Raises:
        ValueError: The message says what to do.
    """
    for file in files:
        if os.path.isdir(file):
            raise ValueError(f"the zoo {file} is a folder: name the Python file in it")
        if not os.path.isfile(file):
            raise ValueError(f"no zoo file {file}: check the path")


def list_models(python: str, files: Sequence[str]) -> list[Model]:
    """Return the models that these zoo files define, without their builders.

    Args:
        python: The observed interpreter.
        files: The zoo files, as absolute paths.

    Raises:
        ZooError: A file cannot be imported, defines no model, or defines one that exists already.
        ObserverError: The interpreter cannot be run.
    """
    if not files:
        return []
    command = [python, "-P", str(OBSERVER)]
    for file in files:
        command += ["--list", file]
    named = f"the zoo file {files[0]}" if len(files) == 1 else f"the zoo files {', '.join(files)}"
    with memory_file("compilegate-models") as answer, memory_file("compilegate-zoo") as log:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=answer,  # a pipe stays open while a process that a file starts holds it
                stderr=log,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except OSError as error:
            raise ObserverError(f"cannot run {python}: {error.strerror}") from error
        except subprocess.TimeoutExpired:
            raise ZooError(f"importing {named} took longer than {_TIMEOUT_S:g} s") from None
        size = os.fstat(answer.fileno()).st_size
        written = os.pread(answer.fileno(), _LONGEST_ANSWER, max(size - _LONGEST_ANSWER, 0))
        *_, last = written.splitlines() or [b""]  # a library may have written lines before
        try:
            listed = msgspec.json.decode(last, type=_Answer)
            if listed.models is None and not listed.error:
                raise ValueError("the last line is no answer")
        except (msgspec.MsgspecError, ValueError, RecursionError):
            _, how = death(-done.returncode if done.returncode < 0 else done.returncode << 8)
            output = output_of(log)
            raise ZooError(
                f"the process that imported {named} {how}" + (f":\n{output}" if output else "")
            ) from None
    if listed.error:
        raise ZooError(listed.error)
    return listed.models or []
