"""The pytest side of observing: starts children, gives them cases, and survives whatever they do.

A fork server (``observe/server``) runs under the observed interpreter. Each model gets a child of
its own, and so does the next case after a child that died.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any

import msgspec

from compilegate.layout import OBSERVER
from compilegate.processes.attempt import (
    PROGRESS_S,
    Attempt,
    Progress,
    death,
    failed,
    ignore_progress,
)
from compilegate.processes.child_output import output_of
from compilegate.processes.child_process import Child, ObserverError
from compilegate.records.encoding import dumps
from compilegate.records.environment import Environment
from compilegate.records.observation import BUSY_MACHINE, Failure, Observation, Status
from compilegate.records.request import Request
from compilegate.zoo.registry import Model

#: Importing torch from a cold disk takes long. A server that is not ready by then never will be.
_START_TIMEOUT_S = 300.0
#: The fork server answers at once, unless a process cannot be killed.
_SERVER_TIMEOUT_S = 120.0
#: The compiler backends of a case. Each but the first stops at an earlier stage.
BACKENDS = ("inductor", "aot_eager_decomp_partition", "aot_eager", "eager")
#: Silences the profiler's own messages, which would hide the reason of a failure.
QUIET = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}


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


class Observer:
    """Observes cases under one interpreter.

    Args:
        launch: How to start children.
        progress: The first value of the attribute.

    Attributes:
        launch: How it starts children.
        progress: Called while a case is observed (see :class:`Attempt`), and with no case while
            the server starts or a child reports its environment.
    """

    def __init__(self, launch: Launch, progress: Progress = ignore_progress) -> None:
        self.progress = progress
        self.launch = launch
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._log: IO[bytes] | None = None
        self._child: Child | None = None
        self._model = ""
        #: Models that died while they were built. Their other cases would die the same way.
        self._dead_on_build: dict[tuple[str, str], tuple[Status, Failure]] = {}
        self._preload: dict[str, Any] = {}

    def preload(self, models: Sequence[Model], *, cpp: bool) -> None:
        """Have the server import what children of these models need, before it forks.

        Args:
            models: The models whose libraries the server imports.
            cpp: Whether Inductor compiles some of their cases to C++.
        """
        packages = sorted({model.requires for model in models if model.requires})
        self._preload = {"preload": packages, "cpp": cpp}

    def environment(self) -> Environment:
        """Return what a child finds: its interpreter, packages, compiler and devices.

        Raises:
            ObserverError: The interpreter cannot be started or has no torch.
        """
        child = self._start_child("")
        child.ask({"environment": True})
        began = time.monotonic()
        try:
            for message in child.listen(every_s=PROGRESS_S, deadline=began + _START_TIMEOUT_S):
                if "environment" in message:
                    return msgspec.convert(message["environment"], Environment, strict=False)
                self.progress("", "start", time.monotonic() - began, "")
            _, how = death(child.ended.status if child.ended else None)
        except TimeoutError:
            how = f"did not answer within {_START_TIMEOUT_S:g} s"
        text = child.output()
        self.end_child()
        raise ObserverError(
            f"{self.launch.python} {how} when asked for its environment:\n{text}".strip()
        )

    def observe(
        self, request: Request, *, model: str, device: str, timeout_s: float
    ) -> Observation:
        """Observe one case, even if the child dies.

        Args:
            request: What to observe.
            model: The model of the case. A child serves one model.
            device: The device of the case.
            timeout_s: Seconds without progress after which the child is killed: see
                :class:`CaseClock`.
        """
        return self.begin(request, model=model, device=device, timeout_s=timeout_s).finish()

    def begin(self, request: Request, *, model: str, device: str, timeout_s: float) -> Attempt:
        """Begin to observe one case, for a caller that sends messages while the case runs.

        The arguments are those of :meth:`observe`. Nothing else may be asked of this observer until
        the attempt is over.
        """
        if known := self._dead_on_build.get((model, device)):
            return Attempt(request, None, timeout_s, failed(request, *known))
        try:
            child = self._start_child(model)
        except ObserverError as error:
            failure = Failure(stage="start", kind="ObserverError", message=str(error))
            return Attempt(request, None, timeout_s, failed(request, "could_not_start", failure))

        def died(status: Status, failure: Failure) -> None:
            if failure.stage in ("start", "build") and failure.kind != BUSY_MACHINE:
                self._dead_on_build[model, device] = (status, failure)

        child.ask(asdict(request))
        return Attempt(
            request, child, timeout_s, end=self.end_child, died=died, progress=self.progress
        )

    def _start_child(self, model: str) -> Child:
        if self._child is not None and self._model == model and self._child.ended is None:
            return self._child
        self.end_child()
        for attempt in (1, 2):
            control = self._start_server()
            try:
                if model and self._preload:
                    self._send_preload(control)
                self._child, self._model = Child(control), model
                break
            except ObserverError:
                self._stop_server()
                if attempt == 2:
                    raise
        assert self._child is not None
        return self._child

    def _start_server(self) -> socket.socket:
        if self._control is not None:
            return self._control
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile(prefix="compilegate-server-")
        command = [self.launch.python, "-P", str(OBSERVER), "--serve", str(theirs.fileno())]
        command += ["--root", self.launch.root]
        for file in self.launch.zoo:
            command += ["--zoo", os.path.abspath(file)]
        try:
            self._server = subprocess.Popen(
                command,
                env={**os.environ, **QUIET, **self.launch.environment},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )
        except OSError as error:
            self._stop_server()
            raise ObserverError(f"cannot run {self.launch.python}: {error.strerror}") from error
        finally:
            theirs.close()
        self._await_ready(self._control)
        return self._control

    def _send_preload(self, control: socket.socket) -> None:
        """Ask the server to preload. It may be asked repeatedly: loaded packages cost no time."""
        with contextlib.suppress(OSError):  # a server that died is noticed when it is asked
            control.send(dumps(self._preload).encode())
        self._await_ready(control)

    def _await_ready(self, control: socket.socket) -> None:
        control.settimeout(PROGRESS_S)
        began, ready = time.monotonic(), False
        while (waited := time.monotonic() - began) < _START_TIMEOUT_S:
            try:
                ready = bool(control.recv(65536))
                break
            except TimeoutError:
                self.progress("", "start", waited, "")
            except OSError:
                break
        control.settimeout(_SERVER_TIMEOUT_S)
        if not ready:
            log = output_of(self._log) if self._log is not None else ""
            self._stop_server()
            raise ObserverError(f"{self.launch.python} could not start the observer:\n{log}")

    def end_child(self) -> None:
        """End the living child, if there is one, and every process that it started."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _stop_server(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._server is not None:
            try:
                self._server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            self._server = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def close(self) -> None:
        """End the child and the server. The next request starts new ones."""
        self.end_child()
        self._stop_server()
