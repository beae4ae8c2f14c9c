"""Fresh processes: Python interpreters that share nothing with this process but files.

What a user saves in one process is loaded in another: exported programs, compile caches. A fresh
process runs the function ``main`` of a *worker*, a module of compilegate. Both sides exchange
tensors and plain values through a folder: ``main`` reads the job with :func:`job_in`, and writes
its answer with :func:`answer_in`.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, get_args, get_type_hints

import torch

from compilegate.observe import descendants
from compilegate.observe.bootstrap import PACKAGE
from compilegate.records.bounded_text import bounded
from compilegate.records.request import STACKS_PLEASE

#: A fresh process imports torch and compiles. One that takes longer than this hangs.
TIMEOUT_S = 300.0
#: Seconds between two looks at a process, and the share of a processor that one at work takes.
_LOOK_S, _AT_WORK = 0.5, 0.1
#: Seconds that a process has to write its stacks.
_STACKS_S = 2.0
_JOB, _ANSWER = "job.pt", "answer.pt"
#: How the line begins in which a worker names what it begins.
_STEP = "step: "
#: Runs the worker ``argv[2]`` on the folder ``argv[3]``, once its input ends. The interpreter need
#: not have compilegate.
_PROGRAM = """
import faulthandler, importlib, pathlib, runpy, sys
faulthandler.enable()
runpy.run_path(sys.argv[1])["make_importable"]()
from compilegate.observe import stacks
stacks.write_on_request()
import torch  # before a module that holds it: see _import_torch in compilegate.observe.__main__
from compilegate.observe import foreign_bisection
foreign_bisection.ignore()
worker = importlib.import_module(sys.argv[2])
sys.stdin.read()
worker.main(pathlib.Path(sys.argv[3]))
"""


class FreshProcessError(RuntimeError):
    """A fresh process failed or hung. The message ends with what it wrote."""


def put_job(folder: Path, job: Mapping[str, Any]) -> None:
    """Write the job of a worker, which its ``main`` reads with :func:`job_in`.

    Args:
        folder: The folder that ``main`` is given.
        job: Tensors, numbers, text and containers of these.
    """
    torch.save(dict(job), folder / _JOB)


def announce(step: str) -> None:
    """Name what a worker begins, in the worker. The error of a crash then names the last one."""
    print(f"{_STEP}{step}", flush=True)


def job_in(folder: Path) -> dict[str, Any]:
    """Return the job of a worker, in the fresh process."""
    job: dict[str, Any] = torch.load(folder / _JOB, weights_only=True)
    return job


def answer_in(folder: Path, answer: Mapping[str, Any]) -> None:
    """Write the answer of a worker, in the fresh process.

    Args:
        folder: The folder that ``main`` was given.
        answer: Tensors, numbers, text and containers of these.
    """
    torch.save(dict(answer), folder / _ANSWER)


def dataclasses_in(kind: type) -> set[type]:
    """Return a dataclass and those that its fields hold, which an answer may consist of."""
    if not dataclasses.is_dataclass(kind):
        return set().union(*map(dataclasses_in, get_args(kind)))
    fields = get_type_hints(kind).values()
    return {kind}.union(*map(dataclasses_in, fields))


def command(worker: str, folder: Path) -> list[str]:
    """Return the command that runs a worker on a folder."""
    bootstrap = PACKAGE / "observe" / "bootstrap.py"
    return [sys.executable, "-P", "-c", _PROGRAM, str(bootstrap), worker, str(folder)]


def run(
    worker: str,
    job: Mapping[str, Any],
    folder: Path,
    beat: Callable[[], None],
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> dict[str, Any]:
    """Run a worker in a fresh process, and return its answer.

    Args:
        worker: The full name of its module.
        job: What it is given: tensors, numbers, text and containers of these.
        folder: A folder for the job and the answer; the worker may leave files in it.
        beat: Called again and again while the process runs.
        environment: Variables of its environment in addition to those of this process.
        timeout_s: Seconds that it may take.

    Raises:
        FreshProcessError: It failed, was killed, or took too long.
    """
    with prepared(worker, folder, environment=environment) as process:
        return process.answer(job, beat, timeout_s=timeout_s)


class Prepared:
    """A fresh process that imports its worker, and then waits for its job.

    Args:
        folder: The folder for the job and the answer.
        process: The process.
        output: What it writes.
    """

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self._folder = folder
        self._process = process
        self._output = output

    def answer(
        self, job: Mapping[str, Any], beat: Callable[[], None], *, timeout_s: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """Give the process its job, once, and return the answer. See :func:`run`."""
        put_job(self._folder, job)
        assert self._process.stdin is not None
        self._process.stdin.close()
        _wait(self._process, self._output, beat, _Watch(self._process, timeout_s))
        if not (self._folder / _ANSWER).exists():
            raise FreshProcessError("a fresh process ended without an answer")
        answer: dict[str, Any] = torch.load(self._folder / _ANSWER, weights_only=True)
        return answer


@contextmanager
def prepared(
    worker: str, folder: Path, *, environment: Mapping[str, str] | None = None
) -> Iterator[Prepared]:
    """Start a fresh process, which ends with the block. See :func:`run` for the arguments."""
    (folder / _ANSWER).unlink(missing_ok=True)
    with tempfile.TemporaryFile() as output:
        arguments = command(worker, folder)
        with _started(arguments, output, environment, subprocess.PIPE) as process:
            yield Prepared(folder, process, output)


def run_command(
    arguments: Sequence[str],
    beat: Callable[[], None],
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    idle_s: float = math.inf,
    progress: Callable[[], object] = lambda: None,
) -> str:
    """Run a command, such as that of a worker, and return what it wrote.

    Args:
        arguments: The program and its arguments.
        beat: Called again and again while it runs.
        environment: Variables of its environment in addition to those of this process.
        timeout_s: Seconds that it may take, counted again from each change of its progress.
        idle_s: Seconds that it may go without a change and without the processor. Processes that
            wait for each other need none, and those that wait for the processor get some.
        progress: Returns how far it has come. By default, it has one limit for all it does.

    Raises:
        FreshProcessError: It failed, was killed, or took too long. The message has its stacks.
    """
    with tempfile.TemporaryFile() as output:
        with _started(arguments, output, environment, subprocess.DEVNULL) as process:
            _wait(process, output, beat, _Watch(process, timeout_s, idle_s, progress))
        return _text(output)


def _wait(
    process: subprocess.Popen[bytes], output: IO[bytes], beat: Callable[[], None], watch: _Watch
) -> None:
    """Wait until a process ends well.

    Raises:
        FreshProcessError: It failed, was killed, or took too long.
    """
    while not _ends_within(process, _LOOK_S):
        beat()
        if reached := watch.look():
            _write_stacks(process)
            raise FreshProcessError(_message(reached, _text(output)))
    if process.returncode:
        raise FreshProcessError(_message(_end(process), _text(output)))


@contextmanager
def _started(
    arguments: Sequence[str],
    output: IO[bytes],
    environment: Mapping[str, str] | None,
    stdin: int,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a session of its own. All that it started ends with the block, too."""
    process = subprocess.Popen(
        arguments,
        stdin=stdin,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            descendants.kill_tree(process.pid)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


class _Watch:
    """Looks at a process from time to time. See :func:`run_command` for the arguments."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        timeout_s: float,
        idle_s: float = math.inf,
        progress: Callable[[], object] = lambda: None,
    ) -> None:
        self._process, self._progress = process, progress
        self._timeout_s, self._idle_s = timeout_s, idle_s
        self._reached = progress()
        self._used_s = self._for_s = self._idle_for_s = 0.0

    def look(self) -> str:
        """Return what is too much, in words; empty if nothing is. Called every half a second."""
        before, self._reached = self._reached, self._progress()
        used_s, self._used_s = self._used_s, self._processor_s()
        works = abs(self._used_s - used_s) >= _AT_WORK * _LOOK_S
        if self._reached != before:
            self._for_s = self._idle_for_s = 0.0
            return ""
        self._for_s += _LOOK_S
        self._idle_for_s = 0.0 if works else self._idle_for_s + _LOOK_S
        if self._idle_for_s >= self._idle_s:
            return f"did nothing for {self._idle_s:g} s"
        return f"took longer than {self._timeout_s:g} s" if self._for_s >= self._timeout_s else ""

    def _processor_s(self) -> float:
        """Return the processor seconds of the process and of all that it started and that live."""
        ticks = 0
        for pid in descendants.tree(self._process.pid):
            with suppress(OSError):  # it has ended since
                # After the name, which may hold spaces; the 12th and 13th are user and system.
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def _write_stacks(process: subprocess.Popen[bytes]) -> None:
    """Have the process, and all that it started, write their stacks, if they can.

    torchrun starts each rank in a session of its own. The signal would kill those that cannot.
    """
    for pid in descendants.tree(process.pid):
        with suppress(OSError):  # it has ended since
            if _catches(pid, STACKS_PLEASE):
                os.kill(pid, STACKS_PLEASE)
    _ends_within(process, _STACKS_S)


def _catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal.

    Raises:
        OSError: The process has ended.
    """
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def _message(end: str, text: str) -> str:
    """Return how a process ended, in which step, and what it wrote."""
    lines = text.splitlines()
    steps = [line.removeprefix(_STEP) for line in lines if line.startswith(_STEP)]
    where = f" in step {steps[-1]!r}" if steps else ""
    rest = "\n".join(line for line in lines if not line.startswith(_STEP))
    return f"a fresh process {end}{where}:\n{rest}"


def _end(process: subprocess.Popen[bytes]) -> str:
    if process.returncode > 0:
        return f"exited with status {process.returncode}"
    return f"was killed by {signal.Signals(-process.returncode).name}"


def _text(output: IO[bytes]) -> str:
    output.seek(0)
    return bounded(output.read().decode(errors="replace")).strip()
