"""Cases of a fork server that serves pieces of Python, without torch."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import judge
from compilegate.processes.attempt import Attempt
from compilegate.processes.child_process import Child
from compilegate.records.observation import Observation
from compilegate.records.request import Request
from compilegate.records.verdict import Verdict
from tests.unit.making import CASE_ID

#: Observes a piece of Python as a case, with a limit in seconds.
Observe = Callable[[str, float], tuple[Observation, Verdict]]

#: Serves children that run a file instead of a case. It can send messages, write bytes instead,
#: burn processor time, and report that the case is over.
_SERVER = """
import json, os, pathlib, socket, sys, time
from compilegate.observe import cache_folder, server

CASE = pathlib.Path(sys.argv[2])

def serve(requests, answers, folder):
    def wait_for_request():  # what is written before it is not output of the case
        os.read(requests, 1)

    def write(content):
        while content:
            content = content[os.write(answers, content):]

    def send(**message):
        write(json.dumps(message).encode() + b"\\n")

    def burn(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    def answer(case="CASE_ID"):
        send(observation={"case": case, "status": "completed"}, last=False)

    def end():
        answer()
        time.sleep(600)

    given = {"write": write, "send": send, "burn": burn, "answer": answer, "end": end}
    given["wait_for_request"] = wait_for_request
    exec(compile(CASE.read_text(), str(CASE), "exec"), {**given, "folder": folder})

server._import_torch = lambda: None
cache_folder.in_use = lambda: CASE.parent
server.run(socket.socket(fileno=int(sys.argv[1])), serve, CASE.with_name("scratch"))
""".replace("CASE_ID", CASE_ID)


class Served:
    """A running fork server without torch.

    Attributes:
        control: The socket to it.
        folder: It holds the file of the case, and the folder with temporary folders of children.
        process: Its supervisor.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._case = folder / "case.py"
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-c", _SERVER, str(theirs.fileno()), str(self._case)]
            self.process = subprocess.Popen(
                words, pass_fds=[theirs.fileno()], start_new_session=True
            )
        assert self.control.recv(65536) == b'{"ready": true}'

    def child(self, code: str) -> Child:
        """Start a child that runs Python code."""
        self._case.write_text(code)
        return Child(self.control)

    def observe(self, code: str, limit_s: float) -> tuple[Observation, Verdict]:
        """Observe a case that runs Python code; return the observation and a verdict."""
        child = self.child(code)
        request = Request(case=CASE_ID, wants=())
        child.ask(asdict(request))
        made = Attempt(request, child, limit_s, end=child.end).finish()
        child.end()
        rule = Finding("passed", "fine")
        return made, judge(made, Budget(), "eager", lambda *_: rule).verdict


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """A fork server, which ends its processes and itself at the end."""
    server = Served(folder)
    try:
        yield server
    finally:
        server.control.close()
        server.process.wait(timeout=60)


def observing(tmp_path: Path) -> Iterator[Observe]:
    """Observes a case that runs a piece of Python; returns the observation and a verdict.

    A test module makes it a fixture: ``observe = pytest.fixture(observing)``.
    """
    with served(tmp_path) as server:
        yield server.observe
    assert server.process.returncode == 0
