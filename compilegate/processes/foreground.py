"""Observes one case in the foreground: the observing process inherits the terminal."""

from __future__ import annotations

import codecs
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from compilegate.layout import OBSERVER
from compilegate.output.streams import CleanStream
from compilegate.processes import lack_of_memory
from compilegate.processes.attempt import death
from compilegate.processes.server_process import QUIET
from compilegate.records.environment import Environment
from compilegate.records.host_memory import MemoryAccount
from compilegate.records.observation import Observation
from compilegate.runs.reader import decode

#: The exit status of the observing process if it refuses its arguments. It says why on stderr.
REFUSED = 2
#: How long the last words of an observing process are waited for, once it has ended.
_LAST_WORDS_S = 5.0


@dataclass(frozen=True)
class Foreground:
    """The result of observing a case in the foreground.

    Attributes:
        observation: The observation; None if the process died or refused its arguments.
        environment: The environment that it was made in.
        refused: Whether the process refused its arguments.
        end: How the process ended, in words.
    """

    observation: Observation | None
    environment: Environment | None
    refused: bool
    end: str


def observe(arguments: Sequence[str], python: str = sys.executable) -> Foreground:
    """Observe one case, with the stdin of this process, so that ``--pdb`` works.

    What it writes to stderr is shown at once, and cleaned: a model and its libraries print what
    they like.

    Args:
        arguments: The case id and the options of the observing process.
        python: The observed interpreter.
    """
    options = ["-X", "faulthandler", "-P"]  # a process that crashes shows its stack
    command = [python, *options, str(OBSERVER), "--environment", *arguments]
    memory = MemoryAccount()
    kills = memory.kills()
    errors, theirs = os.pipe()
    environment = {**os.environ, **QUIET}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    passing = threading.Thread(target=_pass_on, args=(errors,), daemon=True)
    passing.start()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the observing process
    try:
        output, _ = process.communicate()
    finally:
        signal.signal(signal.SIGINT, before)
    passing.join(_LAST_WORDS_S)  # a process that it left behind may keep the pipe open
    observation, observed_in = _records(output.decode(errors="replace").splitlines())
    status = process.returncode
    ended = -status if status < 0 else status << 8
    _, end = death(ended)
    if lack := lack_of_memory.why(ended, "", killed=memory.kills() != kills):
        end = f"ended: {lack}; {memory.describe()}"
    return Foreground(observation, observed_in, status == REFUSED, end)


def _pass_on(errors: int) -> None:
    """Write what arrives from a pipe to stderr, also a part of a line: a debugger prompts."""
    stderr = CleanStream(sys.stderr, colours=False)
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with os.fdopen(errors, "rb", buffering=0) as pipe:
        while part := pipe.read(2**16):
            stderr.write(decoder.decode(part))
            stderr.flush()


def _records(lines: Iterable[str]) -> tuple[Observation | None, Environment | None]:
    """Decode the records, and pass on what a library wrote to stdout."""
    observation = environment = None
    for line in lines:
        if line.startswith('{"record":"observation"'):
            record = decode(line)
            assert isinstance(record, Observation)
            observation = record
        elif line.startswith('{"environment":'):
            found = json.loads(line)["environment"]
            environment = msgspec.convert(found, Environment, strict=False)
        else:
            print(line, file=sys.stderr)
    return observation, environment
