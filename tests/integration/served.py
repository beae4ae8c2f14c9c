"""Cases of a fork server that serves pieces of Python, without torch."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from compilegate.judging.budget import Budget
from compilegate.judging.judge import Finding, judge
from compilegate.processes.attempt import Attempt
from compilegate.processes.child_process import Child
from compilegate.records.observation import Observation
from compilegate.records.request import Request
from compilegate.records.verdict import Verdict
from tests.unit.making import CASE_ID

#: Observes a piece of Python as a case, with a limit in seconds.
Observe = Callable[[str, float], tuple[Observation, Verdict]]

#: Serves children that run a file instead of a case. It can send messages, burn processor time,
#: and report that the case is over.
SERVER = """
import json, os, pathlib, socket, sys, time
from compilegate.observe import server

def serve(requests, answers):
    def send(**message):
        os.write(answers, json.dumps(message).encode() + b"\\n")

    def burn(seconds):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    def end():
        send(observation={"case": "CASE_ID", "status": "completed"}, last=False)
        time.sleep(600)

    path = pathlib.Path(sys.argv[2])
    code = compile(path.read_text(), str(path), "exec")
    exec(code, {"send": send, "burn": burn, "end": end})

server._import_torch = lambda: None
server._inductor_cache = lambda: pathlib.Path(sys.argv[2]).parent
server.run(socket.socket(fileno=int(sys.argv[1])), serve)
""".replace("CASE_ID", CASE_ID)


def observing(tmp_path: Path) -> Iterator[Observe]:
    """Observes a case that runs a piece of Python; returns the observation and a verdict.

    A test module makes it a fixture: ``observe = pytest.fixture(observing)``.
    """
    started = []

    def run(code: str, limit_s: float) -> tuple[Observation, Verdict]:
        path = tmp_path / "case.py"
        path.write_text(code)
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, "-c", SERVER, str(theirs.fileno()), str(path)]
            server = subprocess.Popen(words, pass_fds=[theirs.fileno()], start_new_session=True)
        started.append((control, server))
        assert control.recv(65536) == b'{"ready": true}'
        child = Child(control)
        request = Request(case=CASE_ID, wants=())
        child.ask(asdict(request))
        made = Attempt(request, child, limit_s, end=child.end).finish()
        rule = Finding("passed", "fine")
        return made, judge(made, Budget(), "eager", lambda *_: rule).verdict

    yield run
    for control, server in started:
        control.close()  # it ends its processes, and itself
        assert server.wait(timeout=60) == 0
