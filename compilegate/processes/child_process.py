"""One forked child of the fork server, as the pytest side sees it.

The server waits for the child's process id and reports its end. A pipe that closes proves nothing:
processes that the child leaves behind may hold it open.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from compilegate.processes import kernel_view, lack_of_memory
from compilegate.processes.case_clock import Work
from compilegate.processes.child_output import OBSERVING, last_words_of, output_of
from compilegate.processes.process_tree import ProcessTree
from compilegate.records.encoding import dumps
from compilegate.records.host_memory import MemoryAccount
from compilegate.records.observation import Stage
from compilegate.records.request import STACKS_PLEASE

#: Writing stacks takes at most this many seconds. Output that has not grown for a moment is whole.
_STACKS_S, _MOMENT_S = 5.0, 0.25


class ObserverError(Exception):
    """The interpreter cannot observe any case. The text gives the reason."""


@dataclass
class Ended:
    """The end of a child's process.

    Attributes:
        status: The status as ``os.waitpid`` returns it; None if it is unknown.
    """

    status: int | None


class Child:
    """One forked child: descriptors for requests and answers, and a file that catches its output.

    Args:
        server: The socket of the fork server.

    Raises:
        ObserverError: The fork server has died.
    """

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        request_read, request_write = os.pipe()
        answer_read, answer_write = os.pipe()
        self._output = tempfile.TemporaryFile(prefix="compilegate-output-")
        try:
            descriptors = [request_read, answer_write, self._output.fileno()]
            socket.send_fds(server, [b'{"start": true}'], descriptors)
            reply = server.recv(65536)
        except OSError:
            reply = b""
        finally:
            os.close(request_read)
            os.close(answer_write)
        self._requests: BinaryIO = os.fdopen(request_write, "wb", buffering=0)
        self._answers: BinaryIO = os.fdopen(answer_read, "rb", buffering=0)
        self._mark = 0
        self._seen_from_outside = ""
        self._pending = b""
        if not reply:
            self.close()
            raise ObserverError("the fork server has died")
        self.pid: int = json.loads(reply)["pid"]
        self.stage: Stage = "start"
        self.ended: Ended | None = None
        self._tree = ProcessTree(self.pid)
        self._memory = MemoryAccount(self.pid)
        self._kills = self._memory.kills()

    def ask(self, request: Mapping[str, Any]) -> None:
        """Send one request. :meth:`output` returns what the child writes from now on."""
        self._mark = os.fstat(self._output.fileno()).st_size
        self._kills = self._memory.kills()
        self.send(request)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message. :meth:`listen` notices a child that has already ended."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.write(dumps(message).encode() + b"\n")

    def work(self) -> Work:
        """Return what the child and the processes that it started did since the last call."""
        return self._tree.work()

    def listen(self, *, every_s: float, deadline: float = math.inf) -> Iterator[dict[str, Any]]:
        """Yield messages as they arrive, until the child ends.

        Args:
            every_s: Yield an empty message when nothing has arrived for this many seconds.
            deadline: The time limit on the monotonic clock.

        Raises:
            TimeoutError: The child was still running at the deadline.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            selector.register(self._server, selectors.EVENT_READ)
            while self.ended is None:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError
                wait_s = min(remaining, every_s)
                ready = {key.fileobj for key, _ in selector.select(wait_s)}
                if self._answers in ready:
                    chunk = self._answers.read(1 << 20)
                    if not chunk:
                        selector.unregister(self._answers)
                    yield from self._messages(chunk)
                elif self._server in ready:
                    self.ended = Ended(self._status())
                else:
                    yield {}

    def _messages(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        *lines, self._pending = (self._pending + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line)
            self.stage = message.get("stage", self.stage)
            yield message

    def _status(self) -> int | None:
        with contextlib.suppress(OSError):
            if packet := self._server.recv(65536):
                return int(json.loads(packet)["status"])
        return None

    def lack_of_memory(self) -> str:
        """Return how memory ran out, of a child that died of it since the last request."""
        killed = self._memory.kills() != self._kills
        words = last_words_of(self._output, since=self._mark)
        status = self.ended.status if self.ended else None
        why = lack_of_memory.why(status, words, killed=killed)
        return f"{why}; {self._memory.describe()}" if why else ""

    def ask_for_stacks(self) -> None:
        """Make a hanging child write its threads' stacks, if it still can.

        :meth:`output` then also returns what the kernel shows: of the processes that the child
        started, and of the child itself if it wrote no stacks.
        """
        with contextlib.suppress(ProcessLookupError):
            before = size = self._written()
            os.kill(self.pid, STACKS_PLEASE)
            deadline = time.monotonic() + _STACKS_S
            while time.monotonic() < deadline:
                time.sleep(_MOMENT_S)
                earlier, size = size, self._written()
                if before < earlier == size:
                    break
            wrote = OBSERVING in self.output()
            shown = [pid for pid in self._tree.pids() if pid != self.pid or not wrote]
            self._seen_from_outside = kernel_view.describe(shown)

    def output(self) -> str:
        """Return what the child wrote since the last request: see :func:`output_of`."""
        written = output_of(self._output, since=self._mark)
        return "\n".join(filter(None, (written, self._seen_from_outside)))

    def _written(self) -> int:
        return os.fstat(self._output.fileno()).st_size

    def end(self) -> None:
        """Kill the child and its process group, and wait until the server reports its end."""
        if self.ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.ended = Ended(self._status())
        self.close()

    def close(self) -> None:
        """Close the descriptors."""
        self._requests.close()
        self._answers.close()
        self._output.close()
