"""The pytest side of observing: starts children, feeds them cases, and outlives whatever they do.

A fork server (``observe/server``) runs under the observed interpreter. Each model gets a child of
its own, and so does the next case after a child that died.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import IO, Any

import msgspec

from compilegate.layout import OBSERVER
from compilegate.processes.child_process import Child, ObserverError, output_of
from compilegate.records.encoding import dumps
from compilegate.records.environment import Environment
from compilegate.records.observation import Failure, Observation, Status
from compilegate.records.request import Request
from compilegate.zoo.registry import Model

#: Importing torch on a cold disk takes long; a server that is not ready by then never will be.
_START_TIMEOUT_S = 300.0
#: The fork server answers at once, unless a process cannot be killed.
_SERVER_TIMEOUT_S = 120.0
#: Keeps the profiler's own chatter out of what a failure shows.
_QUIET = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}


@dataclass(frozen=True)
class Launch:
    """How children are started.

    Attributes:
        python: The observed interpreter.
        zoo: User's zoo files.
        environment: Variables set besides the inherited ones.
    """

    python: str = sys.executable
    zoo: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


class Observer:
    """Observes cases under one interpreter.

    Args:
        launch: How children are started.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._log: IO[bytes] | None = None
        self._child: Child | None = None
        self._model = ""
        #: Models that died while being built: their other cases would die the same way.
        self._dead_on_build: dict[tuple[str, str], tuple[Status, Failure]] = {}
        self._preload: dict[str, Any] = {}

    def preload(self, models: Sequence[Model], *, cpp: bool) -> None:
        """Let what all children of these models need be done once, before the first is forked.

        Args:
            models: Their libraries are imported.
            cpp: Whether some are compiled to C++.
        """
        packages = sorted({model.requires for model in models if model.requires})
        self._preload = {"preload": packages, "cpp": cpp}

    def environment(self) -> Environment:
        """What the interpreter is and has.

        Raises:
            ObserverError: It cannot be started or has no torch.
        """
        answer = self._one_answer({"environment": True}, "environment")
        return msgspec.convert(answer, Environment, strict=False)

    def models(self, file: str) -> list[Model]:
        """The models that a user's zoo file defines.

        Raises:
            ObserverError: The file cannot be imported.
        """
        try:
            answer = self._one_answer({"list": file}, "models")
        except ObserverError as error:
            raise ObserverError(f"cannot import the zoo file {file}: {error}") from error
        if isinstance(answer, str):
            raise ObserverError(f"cannot import the zoo file {file}:\n{answer}")
        return [Model(**entry) for entry in msgspec.convert(answer, list[dict[str, Any]])]

    def _one_answer(self, request: dict[str, Any], key: str) -> Any:
        child = self._start_child("")
        child.ask(request)
        try:
            if message := next(child.listen(time.monotonic() + _START_TIMEOUT_S), None):
                return message[key]
            _, how = _death(child.ended.status if child.ended else None)
        except TimeoutError:
            how = f"did not answer within {_START_TIMEOUT_S:g} s"
        text = child.output()
        self.end_child()
        raise ObserverError(f"{self._launch.python} {how} when asked for its {key}\n{text}".strip())

    def observe(
        self, request: Request, *, model: str, device: str, timeout_s: float
    ) -> Observation:
        """Observe one case, whatever happens to the child.

        Args:
            request: What to observe.
            model: The case's model: a child lives for one.
            device: The case's device.
            timeout_s: Seconds after which the child is killed.
        """
        return self.begin(request, model=model, device=device, timeout_s=timeout_s).finish()

    def begin(self, request: Request, *, model: str, device: str, timeout_s: float) -> Attempt:
        """Begin to observe one case, for a caller that has something to say meanwhile.

        The arguments are those of :meth:`observe`; nothing else may be asked of this observer until
        the attempt is over.
        """
        if known := self._dead_on_build.get((model, device)):
            return Attempt(request, None, timeout_s, _failed(request, *known))
        try:
            child = self._start_child(model)
        except ObserverError as error:
            failure = Failure(stage="start", kind="ObserverError", message=str(error))
            return Attempt(request, None, timeout_s, _failed(request, "could_not_start", failure))

        def died(status: Status, failure: Failure) -> None:
            if failure.stage in ("start", "build"):
                self._dead_on_build[model, device] = (status, failure)

        child.ask(asdict(request))
        return Attempt(request, child, timeout_s, end=self.end_child, died=died)

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
        command = [self._launch.python, "-P", str(OBSERVER), "--serve", str(theirs.fileno())]
        for file in self._launch.zoo:
            command += ["--zoo", os.path.abspath(file)]
        try:
            self._server = subprocess.Popen(
                command,
                env={**os.environ, **_QUIET, **self._launch.environment},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                start_new_session=True,
            )
        except OSError as error:
            self._stop_server()
            raise ObserverError(f"cannot run {self._launch.python}: {error.strerror}") from error
        finally:
            theirs.close()
        self._await_ready(self._control)
        return self._control

    def _send_preload(self, control: socket.socket) -> None:
        """Ask for it again and again: what is loaded already takes no time."""
        with contextlib.suppress(OSError):  # a server that died is found when it is asked
            control.send(dumps(self._preload).encode())
        self._await_ready(control)

    def _await_ready(self, control: socket.socket) -> None:
        control.settimeout(_START_TIMEOUT_S)
        try:
            ready = bool(control.recv(65536))
        except OSError:
            ready = False
        control.settimeout(_SERVER_TIMEOUT_S)
        if not ready:
            log = output_of(self._log) if self._log is not None else ""
            self._stop_server()
            raise ObserverError(f"{self._launch.python} could not start the observer:\n{log}")

    def end_child(self) -> None:
        """End the living child, if any, and what it started."""
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
        """End the child and the server; nothing of them is left."""
        self.end_child()
        self._stop_server()


class Attempt:
    """One case under observation. Its clock runs only while it is listened to.

    Args:
        request: What is observed.
        child: Who observes it, or None where that is known to fail.
        timeout_s: Seconds of listening after which the child is killed.
        observation: What it ended in, if it has.
        end: Ends the child.
        died: Called with status and failure where the child ends without answering.
    """

    def __init__(
        self,
        request: Request,
        child: Child | None,
        timeout_s: float,
        observation: Observation | None = None,
        *,
        end: Callable[[], None] = lambda: None,
        died: Callable[[Status, Failure], None] = lambda status, failure: None,
    ) -> None:
        self.observation = observation
        self._request, self._child = request, child
        self._end, self._died = end, died
        self._timeout_s, self._heard_s = timeout_s, 0.0

    def finish(self) -> Observation:
        """Listen to the end."""
        while self.observation is None:
            self.hear("observation")
        return self.observation

    def tell(self, **content: Any) -> None:
        """Send the child a message."""
        if self._child is not None:
            self._child.tell(content)

    def hear(self, key: str) -> Any:
        """Listen until a message says this.

        Returns:
            What it says; None where the case ended instead, and ``observation`` is set.
        """
        child = self._child
        if self.observation is not None or child is None:
            return None
        started = time.monotonic()
        status: Status
        try:
            for message in child.listen(started + self._timeout_s - self._heard_s):
                if "observation" in message:
                    made = message["observation"]
                    made["output"] = child.output()
                    if message["last"]:  # the next case needs another process
                        self._end()
                    self.observation = msgspec.convert(made, Observation, strict=False)
                    return None
                if key in message:
                    return message[key]
            assert child.ended is not None
            status, (kind, how) = "crashed", _death(child.ended.status)
        except TimeoutError:
            child.ask_for_stacks()
            status, kind, how = "timed_out", "timeout", f"was killed after {self._timeout_s:g} s"
        finally:
            self._heard_s += time.monotonic() - started
        failure = Failure(
            stage=child.stage, kind=kind, message=f"the process {how}", output=child.output()
        )
        self._end()
        self._died(status, failure)
        self.observation = _failed(self._request, status, failure, lost_s=self._heard_s)
        return None


def _death(status: int | None) -> tuple[str, str]:
    """The kind of a process's end, its signal or ``exit``, and how it ended."""
    if status is None:
        return "exit", "vanished"
    if not os.WIFSIGNALED(status):
        return "exit", f"exited with status {os.waitstatus_to_exitcode(status)} without an answer"
    name = signal.Signals(os.WTERMSIG(status)).name
    if name == "SIGKILL":
        return name, f"was killed from outside, most likely for lack of memory: {name}"
    return name, f"died of {name}"


def _failed(request: Request, status: Status, failure: Failure, lost_s: float = 0.0) -> Observation:
    return Observation(
        case=request.case,
        status=status,
        failure=failure,
        wants=request.wants,
        backend=request.backend,
        cold=request.cold,
        seed=request.seed,
        spent_s={"lost to crashes": lost_s},
        output=failure.output,
    )
