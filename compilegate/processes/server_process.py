"""The fork server of an interpreter (``observe/server``), as the pytest side starts and ends it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compilegate.layout import OBSERVER
from compilegate.processes.attempt import PROGRESS_S, Progress
from compilegate.processes.child_output import output_of
from compilegate.processes.child_process import ObserverError
from compilegate.processes.memory_file import memory_file
from compilegate.processes.protocol import decode_packet
from compilegate.records.encoding import dumps

#: Importing torch from a cold disk takes long. A server that is not ready by then never will be.
START_TIMEOUT_S = 300.0
#: The fork server answers at once, unless a process cannot be killed.
_ANSWER_TIMEOUT_S = 120.0
#: What the server may take to end its processes; its supervisor then kills it.
_END_TIMEOUT_S = 30.0
#: Silences the profiler's own messages, which would hide the reason of a failure.
QUIET = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}
#: Where temporary files go if a model has removed or locked the folder for them.
_OTHER_FOLDERS = ("/tmp", "/var/tmp")


@dataclass(frozen=True)
class Launch:
    """How to start children.

    Attributes:
        python: The observed interpreter.
        zoo: The user's zoo files.
        environment: Variables that are added to the inherited ones.
        root: The root of the user's project, from which the user's files are named.
    """

    python: str = sys.executable
    zoo: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    root: str = ""


class ServerProcess:
    """A running fork server, below its supervisor.

    Args:
        launch: How to start it.
        progress: Called while it starts.

    Attributes:
        control: The socket to it.

    Raises:
        ObserverError: It cannot be started.
    """

    def __init__(self, launch: Launch) -> None:
        self._python, self._is_ready = launch.python, False
        with contextlib.ExitStack() as opened:
            try:
                self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                opened.callback(self.control.close)
                opened.callback(theirs.close)
                self._log = opened.enter_context(memory_file("compilegate-server"))
                self._scratch = _make_scratch()
                opened.callback(shutil.rmtree, self._scratch, ignore_errors=True)
                self._process = self._start(launch, theirs)
            except OSError as error:
                reason = error.strerror or error
                raise ObserverError(f"cannot run {launch.python}: {reason}") from error
            opened.pop_all()
        theirs.close()

    def _start(self, launch: Launch, theirs: socket.socket) -> subprocess.Popen[bytes]:
        command = [launch.python, "-P", str(OBSERVER), "--serve", str(theirs.fileno())]
        command += ["--scratch", self._scratch, "--root", launch.root]
        for file in launch.zoo:
            command += ["--zoo", os.path.abspath(file)]
        return subprocess.Popen(
            command,
            env={**os.environ, **QUIET, **launch.environment},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The id of the process that supervises the server."""
        return self._process.pid

    def preload(self, what: Mapping[str, Any], progress: Progress) -> None:
        """Have the server import packages. It may be asked again: loaded packages cost no time.

        Raises:
            ObserverError: It has died.
        """
        self.await_ready(progress)
        with contextlib.suppress(OSError):  # a server that died does not become ready
            self.control.send(dumps(what).encode())
        self._await_answer(progress)

    def await_ready(self, progress: Progress) -> None:
        """Wait until the server can fork.

        Raises:
            ObserverError: It has died, or takes too long. It is ended.
        """
        if not self._is_ready:
            self._await_answer(progress)
            self._is_ready = True

    def _await_answer(self, progress: Progress) -> None:
        self.control.settimeout(PROGRESS_S)
        began, ready = time.monotonic(), False
        while (waited := time.monotonic() - began) < START_TIMEOUT_S:
            try:
                ready = decode_packet(self.control.recv(65536)).ready
                break
            except TimeoutError:
                progress("", "start", waited, "")
            except OSError:
                break
        self.control.settimeout(_ANSWER_TIMEOUT_S)
        if not ready:
            log = output_of(self._log)
            self.stop()
            raise ObserverError(f"{self._python} could not start the observer:\n{log}")

    def stop(self) -> None:
        """End the server and every process that it or its children have started."""
        self.control.close()
        try:
            self._process.wait(timeout=_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        # The supervisor has done it, unless it was killed.
        shutil.rmtree(self._scratch, ignore_errors=True)


def _make_scratch() -> str:
    """Make the folder that holds the temporary folders of children.

    Raises:
        OSError: No folder for temporary files is left.
    """
    for parent in (tempfile.gettempdir(), *_OTHER_FOLDERS):
        try:
            return tempfile.mkdtemp(prefix="compilegate-", dir=parent)
        except OSError as error:
            failed = error
    raise failed
