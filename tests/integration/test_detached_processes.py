"""Processes that a child has detached end with it, also if it kills the fork server first."""

import os
from pathlib import Path

import pytest

from compilegate.processes.child_process import ObserverError
from tests.integration.served import served

#: Starts a daemon that no environment, session, group or parent connects with the child.
DETACH = """
import os, pathlib, signal, sys, time

def detach():
    if not os.fork():
        os.setsid()
        if not os.fork():
            words = [sys.executable, "-c", "import time; time.sleep(600)"]
            os.execve(sys.executable, words, {})
        os._exit(0)
    os.wait()
    children = pathlib.Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children")
    CASE.with_name("daemon").write_text(children.read_text().split()[-1])

detach()
send(stage="call")
"""


@pytest.fixture
def server(tmp_path):
    with served(tmp_path) as server:
        yield server


def observe(server, code):
    """Observe a case that detaches a process; return the observation and that process."""
    code = f"CASE = __import__('pathlib').Path({str(server.folder / 'case.py')!r})\n{DETACH}{code}"
    made, _ = server.observe(code, 60.0)
    return made, int((server.folder / "daemon").read_text())


def lives(pid):
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("end()", "completed"),
        ("answer()", "completed"),
        ("os._exit(3)", "crashed"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed"),
    ],
)
def test_a_detached_process_ends_with_its_child(server, code, status):
    made, daemon = observe(server, code)
    assert made.status == status
    assert not lives(daemon)


KILLS_SERVER = "os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)"
KILLS_GROUP = "os.killpg(os.getpgid(os.getppid()), signal.SIGKILL); time.sleep(600)"


@pytest.mark.parametrize("code", [KILLS_SERVER, KILLS_GROUP])
def test_the_supervisor_ends_what_a_killed_fork_server_leaves(server, code):
    made, daemon = observe(server, f"(folder / 'big').write_bytes(bytes(1 << 20))\n{code}")
    assert (made.status, made.failure.kind) == ("crashed", "SIGKILL")
    assert made.failure.stage == "call"
    assert made.failure.message == "the fork server was killed, and the process with it: SIGKILL"
    assert not lives(daemon)
    assert server.process.wait(timeout=60) == 1
    assert not (server.folder / "scratch").exists()
    with pytest.raises(ObserverError, match="the fork server has died"):
        server.child("")  # the session starts another


def test_a_truncated_library_that_a_killed_fork_server_leaves_is_removed(server):
    library = server.folder / "half.so"
    made, _ = observe(server, f"CASE.with_name('half.so').write_bytes(b'half')\n{KILLS_SERVER}")
    assert made.status == "crashed"
    assert not library.exists()


def test_everything_ends_with_the_parent(server):
    child = server.child(
        f"CASE = __import__('pathlib').Path({str(server.folder / 'case.py')!r})\n{DETACH}end()"
    )
    assert any(message.observation for message in child.listen(every_s=60.0))
    daemon = int((server.folder / "daemon").read_text())
    assert lives(daemon)
    assert lives(child.pid)
    server.control.close()
    assert server.process.wait(timeout=60) == 0
    assert not lives(daemon)
    assert not lives(child.pid)
    assert not (server.folder / "scratch").exists()


@pytest.mark.parametrize(
    "code",
    [
        "folder.joinpath('big').write_bytes(bytes(1 << 20))",
        "folder.joinpath('inner').mkdir(); folder.joinpath('inner').chmod(0); folder.chmod(0)",
        "folder.joinpath('out').symlink_to(folder.parents[1])",
        "folder.rmdir()",
        "import shutil; shutil.rmtree(folder.parent)",
    ],
)
def test_the_temporary_folder_of_a_child_is_removed_with_it(server, code):
    mode = server.folder.stat().st_mode
    made, _ = observe(server, f"{code}\nend()")
    assert made.status == "completed"
    scratch = server.folder / "scratch"
    assert not scratch.exists() or os.listdir(scratch) == []
    assert server.folder.stat().st_mode == mode
    made, _ = server.observe("(folder / 'file').touch(); end()", 60.0)
    assert made.status == "completed"


def test_where_no_process_can_be_started_the_reason_is_given_and_the_next_one_is(server):
    scratch = server.folder / "scratch"
    scratch.write_text("a file where the folder should be")
    with pytest.raises(ObserverError, match=r"could not start a process: .*File exists"):
        server.child("end()")
    scratch.unlink()
    made, _ = server.observe("end()", 60.0)
    assert made.status == "completed"
