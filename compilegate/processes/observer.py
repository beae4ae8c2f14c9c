"""The pytest side of observing: starts children, gives them cases, and survives whatever they do.

A fork server (``observe/server``) runs under the observed interpreter. Each model gets a child of
its own, and so does the next case after a child that died.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from compilegate.processes import deadly_probes
from compilegate.processes.attempt import (
    PROGRESS_S,
    Attempt,
    Progress,
    end_of,
    failed,
    ignore_progress,
)
from compilegate.processes.child_process import Child, ObserverError
from compilegate.processes.machine_turns import MachineTurns
from compilegate.processes.memory_shares import CaseMemory
from compilegate.processes.protocol import MisbehaviourError
from compilegate.processes.server_process import START_TIMEOUT_S, Launch, ServerProcess
from compilegate.records.environment import Environment
from compilegate.records.observation import BUSY_MACHINE, Failure, Observation, Status
from compilegate.records.request import Request
from compilegate.zoo.registry import Model

#: The compiler backends of a case. Each but the first stops at an earlier stage.
BACKENDS = ("inductor", "aot_eager_decomp_partition", "aot_eager", "eager")


class Observer:
    """Observes cases under one interpreter.

    Args:
        launch: How to start children.
        progress: The first value of the attribute.
        turns: The turns in which children time, where other processes of the session observe on
            this machine, too.

    Attributes:
        launch: How it starts children.
        turns: The turns, or None.
        progress: Called while a case is observed (see :class:`Attempt`), and with no case while
            the server starts or a child reports its environment.
        memory: The share of the next case in the memory of a GPU; None where nobody shares it.
    """

    def __init__(
        self,
        launch: Launch,
        progress: Progress = ignore_progress,
        turns: MachineTurns | None = None,
    ) -> None:
        self.progress = progress
        self.memory: CaseMemory | None = None
        self.launch, self.turns = launch, turns
        self._server: ServerProcess | None = None
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

    def start(self) -> None:
        """Start the server, which imports torch while this process goes on.

        Raises:
            ObserverError: The interpreter cannot be run.
        """
        self._start_server()

    def environment(self, timeout_s: float = START_TIMEOUT_S) -> Environment:
        """Return what a child finds: its interpreter, packages, compiler and devices.

        Args:
            timeout_s: Seconds until the child must have answered.

        Raises:
            ObserverError: The interpreter cannot be started or has no torch.
        """
        child = self._start_child("")
        child.ask({"environment": True})
        began = time.monotonic()
        try:
            for message in child.listen(every_s=PROGRESS_S, deadline=began + timeout_s):
                if message.environment is not None:
                    return message.environment
                self.progress("", "start", time.monotonic() - began, "")
            assert child.ended is not None
            _, how = end_of(child.ended)
        except TimeoutError:
            how = f"the process did not answer within {timeout_s:g} s"
        except MisbehaviourError as error:
            how = f"{error.kind}: {error}"
        text = child.output()
        self.end_child()
        raise ObserverError(
            f"{self.launch.python} did not report its environment: {how}\n{text}".strip()
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

        def begin(asked: Request) -> Attempt:
            return self.begin(asked, model=model, device=device, timeout_s=timeout_s)

        attempt = begin(request)
        made = attempt.finish()
        while (again := deadly_probes.without_them(request, attempt, begin)) is not None:
            request, attempt = again, begin(again)
            made = deadly_probes.with_time_of(made, attempt.finish())
        return made

    def begin(self, request: Request, *, model: str, device: str, timeout_s: float) -> Attempt:
        """Begin to observe one case, for a caller that sends messages while the case runs.

        The arguments are those of :meth:`observe`. Nothing else may be asked of this observer until
        the attempt is over.
        """
        if known := self._dead_on_build.get((model, device)):
            return Attempt(request, None, timeout_s, failed(request, *known))
        try:
            with self.turns.starting() if self.turns else contextlib.nullcontext():
                child = self._start_child(model)
        except ObserverError as error:
            failure = Failure(stage="start", kind="ObserverError", message=str(error))
            return Attempt(request, None, timeout_s, failed(request, "could_not_start", failure))

        def died(status: Status, failure: Failure) -> None:
            if failure.stage in ("start", "build") and failure.kind != BUSY_MACHINE:
                self._dead_on_build[model, device] = (status, failure)

        child.ask(asdict(request))
        return Attempt(
            request,
            child,
            timeout_s,
            end=self.end_child,
            died=died,
            progress=self.progress,
            memory=self.memory,
            turns=self.turns,
        )

    def _start_child(self, model: str) -> Child:
        if self._child is not None and self._model == model and self._child.is_idle:
            return self._child
        self.end_child()
        for attempt in (1, 2):
            try:
                server = self._server or self._start_server()
                server.await_ready(self.progress)
                if model and self._preload:
                    server.preload(self._preload, self.progress)
                self._child, self._model = Child(server.control), model
                break
            except ObserverError:
                self._stop_server()
                if attempt == 2:
                    raise
        assert self._child is not None
        return self._child

    def end_child(self) -> None:
        """End the living child, if there is one, and every process that it started."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _start_server(self) -> ServerProcess:
        self._server = ServerProcess(self.launch)
        if self.turns is not None:
            self.turns.add(self._server.pid)
        return self._server

    def _stop_server(self) -> None:
        if self._server is not None:
            if self.turns is not None:
                self.turns.remove(self._server.pid)
            self._server.stop()
            self._server = None

    def close(self) -> None:
        """End the child and the server. The next request starts new ones."""
        self.end_child()
        self._stop_server()
