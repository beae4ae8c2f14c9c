"""One forked child of the fork server, as the pytest side sees it.

The server waits for the child's process id and reports its end. A pipe that closes proves nothing:
processes that the child leaves behind may hold it open. Nor is what arrives trusted: see
:mod:`compilegate.processes.protocol`.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import selectors
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from compilegate.processes import kernel_view, lack_of_memory, protocol
from compilegate.processes.case_clock import Work
from compilegate.processes.child_output import OBSERVING, last_words_of, output_of
from compilegate.processes.memory_file import memory_file
from compilegate.processes.process_tree import ProcessTree
from compilegate.processes.protocol import (
    SILENCE,
    Lines,
    Message,
    Packet,
    decode_packet,
)
from compilegate.records.encoding import dumps
from compilegate.records.host_memory import MemoryAccount
from compilegate.records.observation import Stage
from compilegate.records.request import STACKS_PLEASE

#: Writing stacks takes at most this many seconds. Output that has not grown for a moment is whole.
_STACKS_S, _MOMENT_S = 5.0, 0.25
#: How often the size of the output is looked at, in seconds.
_GLANCE_S = 0.5


class ObserverError(Exception):
    """The interpreter cannot observe any case. The text gives the reason."""


@dataclass
class Ended:
    """The end of a child's process.

    Attributes:
        status: The status as ``os.waitpid`` returns it; None if it is unknown.
        server: The status of the fork server, if that has ended, and the child with it.
    """

    status: int | None
    server: int | None = None


class Child:
    """One forked child: descriptors for requests and answers, and a file that catches its output.

    Args:
        server: The socket of the fork server.

    Raises:
        ObserverError: The fork server has ended, or no process can be started.
    """

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        with contextlib.ExitStack() as opened:
            try:
                request_read, request_write = _pipe(opened)
                answer_read, answer_write = _pipe(opened)
                self._output = opened.enter_context(memory_file("compilegate-output"))
            except OSError as error:
                raise ObserverError(f"no process can be started: {error}") from error
            packet = self._start(request_read, answer_write, self._output.fileno())
            if packet.pid is None:
                raise ObserverError(packet.failed or "the fork server has died")
            opened.pop_all()
        os.close(request_read)
        os.close(answer_write)
        os.set_blocking(request_write, False)  # a child need not read
        self._requests: BinaryIO = os.fdopen(request_write, "wb", buffering=0)
        self._answers: BinaryIO = os.fdopen(answer_read, "rb", buffering=0)
        self._lines = Lines()
        self._mark = 0
        self._seen_from_outside = ""
        self.pid: int = packet.pid
        self.stage: Stage = "start"
        self.ended: Ended | None = None
        self._tree = ProcessTree(self.pid)
        self._memory = MemoryAccount(self.pid)
        self._kills = self._memory.kills()

    def _start(self, *descriptors: int) -> Packet:
        try:
            socket.send_fds(self._server, [b'{"start": true}'], descriptors)
            return decode_packet(self._server.recv(65536))
        except OSError:
            return Packet()

    @property
    def is_idle(self) -> bool:
        """Whether the child lives, and has sent nothing since its last answer."""
        if self.ended is not None or not self._lines.is_empty:
            return False
        return not _is_readable(self._answers, self._server)

    def ask(self, request: Mapping[str, Any]) -> None:
        """Send one request. :meth:`output` returns what the child writes from now on."""
        self._mark = os.fstat(self._output.fileno()).st_size
        self._kills = self._memory.kills()
        self.send(request)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message. A child that has ended, or does not read, never answers."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.write(dumps(message).encode() + b"\n")

    def work(self) -> Work:
        """Return what the child and the processes that it started did since the last call."""
        return self._tree.work()

    def listen(self, *, every_s: float, deadline: float = math.inf) -> Iterator[Message]:
        """Yield messages as they arrive, until the child ends.

        Args:
            every_s: Yield ``SILENCE`` when nothing has arrived for this many seconds.
            deadline: The time limit on the monotonic clock.

        Raises:
            TimeoutError: The child was still running at the deadline.
            MisbehaviourError: What has arrived is no message, or there is too much output.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            selector.register(self._server, selectors.EVENT_READ)
            silent_at = time.monotonic() + every_s
            while self.ended is None:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError
                wait_s = min(remaining, silent_at - time.monotonic(), _GLANCE_S)
                ready = {key.fileobj for key, _ in selector.select(max(wait_s, 0.0))}
                self._refuse_flood()
                if ready or time.monotonic() >= silent_at:
                    silent_at = time.monotonic() + every_s
                else:
                    continue
                if self._answers in ready:
                    chunk = self._answers.read(1 << 20)
                    if not chunk:
                        selector.unregister(self._answers)
                    self._lines.add(chunk)
                    while message := self._lines.next_message():
                        self.stage = message.stage or self.stage
                        yield message
                elif self._server in ready:
                    self.ended = self._read_end()
                else:
                    yield SILENCE
        status = self.ended.status
        if status is not None and os.WIFEXITED(status) and not self._lines.is_empty:
            raise self._lines.incomplete()

    def _refuse_flood(self) -> None:
        if self._written() > protocol.MOST_OUTPUT:
            raise protocol.TooMuchOutputError(f"more than {protocol.MOST_OUTPUT >> 20} MiB")

    def refuse_more(self) -> None:
        """Refuse what follows the answer of a case.

        Raises:
            GarbledAnswerError: Something has arrived since.
        """
        if self._lines.is_empty and _is_readable(self._answers):
            self._lines.add(self._answers.read(1 << 10))
        if not self._lines.is_empty:
            raise self._lines.second_answer()

    def _read_end(self) -> Ended:
        """Wait for the packet that reports the end of the child, or of the fork server."""
        try:
            packet = decode_packet(self._server.recv(65536))
        except OSError:
            packet = Packet()
        return Ended(packet.status, packet.server)

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
            self.ended = self._read_end()
        self.close()

    def close(self) -> None:
        """Close the descriptors."""
        self._requests.close()
        self._answers.close()
        self._output.close()


def _pipe(opened: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        opened.callback(os.close, end)
    return ends


def _is_readable(*files: BinaryIO | socket.socket) -> bool:
    """Whether something has arrived in one of these, or has closed it."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
