"""One forked child of the fork server, as the pytest side sees it.

Its end is told by the server, which waits for its process id, never by a pipe that closes: what it
leaves behind may hold the pipe.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, BinaryIO

from compilegate.records.encoding import dumps
from compilegate.records.observation import Stage
from compilegate.records.request import STACKS_PLEASE

#: Frames of the observer itself in a dumped stack, of no use to the reader.
_OWN_FRAME = re.compile(
    r'\s*File ".*(compilegate/(observe|zoo)/|<frozen runpy>)|Extension modules:'
)
#: How faulthandler begins, and of all threads the one that got the signal; its innermost frames
#: come first, and so many lines are kept.
_FATAL, _CURRENT, _STACK_LINES = "Fatal Python error: ", "Current thread", 12
#: Writing stacks takes no longer than this; what has not grown for a moment is complete.
_STACKS_S, _MOMENT_S = 5.0, 0.25
#: What is kept of a child's output: so many lines, out of so many bytes. (A dying process lists the
#: stacks of all its threads, and the modules that it imported, in a line of thousands of letters.)
_OUTPUT_LINES, _OUTPUT_BYTES = 40, 1 << 17


class ObserverError(Exception):
    """The observed interpreter could not do what every case needs; the text says why."""


@dataclass
class Ended:
    """How a child's process ended; ``status`` as ``os.waitpid`` gives it, None if nobody knows."""

    status: int | None


class Child:
    """One forked child: descriptors to ask and hear it, and a file that catches its output."""

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
        self._pending = b""
        if not reply:
            self.close()
            raise ObserverError("the fork server has died")
        self.pid: int = json.loads(reply)["pid"]
        self.stage: Stage = "start"
        self.ended: Ended | None = None

    def ask(self, request: Mapping[str, Any]) -> None:
        """Send one request."""
        self._mark = os.fstat(self._output.fileno()).st_size
        self.tell(request)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send one message; a child that is already gone will be noticed when listening."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.write(dumps(message).encode() + b"\n")

    def listen(self, deadline: float) -> Iterator[dict[str, Any]]:
        """Messages as they come, until the child ends.

        Raises:
            TimeoutError: Nothing ended it by the deadline (on the monotonic clock).
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            selector.register(self._server, selectors.EVENT_READ)
            while self.ended is None:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError
                ready = {key.fileobj for key, _ in selector.select(remaining)}
                if self._answers in ready:
                    chunk = self._answers.read(1 << 20)
                    if not chunk:
                        selector.unregister(self._answers)
                    yield from self._messages(chunk)
                elif self._server in ready:
                    self.ended = Ended(self._status())

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

    def ask_for_stacks(self) -> None:
        """Let a child that hangs say where, as far as it still can."""
        with contextlib.suppress(ProcessLookupError):
            before = size = self._written()
            os.kill(self.pid, STACKS_PLEASE)
            deadline = time.monotonic() + _STACKS_S
            while time.monotonic() < deadline:
                time.sleep(_MOMENT_S)
                earlier, size = size, self._written()
                if before < earlier == size:
                    break

    def output(self) -> str:
        """What it wrote since it was last asked: where it crashed, or else its last lines."""
        return output_of(self._output, since=self._mark)

    def _written(self) -> int:
        return os.fstat(self._output.fileno()).st_size

    def end(self) -> None:
        """Kill it and all of its process group, and wait until the server has seen it go."""
        if self.ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.ended = Ended(self._status())
        self.close()

    def close(self) -> None:
        """Give back the descriptors."""
        self._requests.close()
        self._answers.close()
        self._output.close()


def output_of(file: IO[bytes], since: int = 0) -> str:
    """The last lines that a process wrote to a file; of one that died of a signal, where it was.

    Args:
        file: Where it writes.
        since: The byte to begin at.
    """
    size = os.fstat(file.fileno()).st_size
    start = max(since, size - _OUTPUT_BYTES)
    text = os.pread(file.fileno(), size - start, start).decode(errors="replace")
    lines = [line for line in text.splitlines() if not _OWN_FRAME.match(line)]
    fatal = [n for n, line in enumerate(lines) if line.startswith(_FATAL)]
    if fatal:
        current = [n for n, line in enumerate(lines) if line.startswith(_CURRENT)]
        frames = lines[current[-1] :] if current else lines[fatal[-1] + 1 :]
        lines = [lines[fatal[-1]], *filter(None, frames)][:_STACK_LINES]
    return "\n".join(lines[-_OUTPUT_LINES:]).strip()
