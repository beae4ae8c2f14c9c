"""Fresh processes run a worker and return its answer, or say how it failed."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch

from compilegate.observe.practices import fresh_process

WORKER = "tests.unit.fresh_workers"


def beat():
    pass


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run one of the workers of these tests, found from the root of the repository."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))

    def started(task, **options):
        return fresh_process.run(WORKER, {"task": task}, tmp_path, beat, **options)

    return started


@pytest.mark.long
def test_a_worker_answers_once_with_tensors_and_values(run):
    answer = run("double", environment={"FRESH": "yes"})
    assert torch.equal(answer["doubled"], torch.tensor([2.0, 4.0]))
    assert (answer["pid"] != os.getpid(), answer["fresh"]) == (True, "yes")
    with pytest.raises(fresh_process.FreshProcessError, match="ended without an answer"):
        run("be silent")  # the earlier answer is not taken for its own


def test_pytorch_is_imported_before_the_worker(run):
    """Inductor's keys name the first module that holds it: a worker would make them its own."""
    assert run("name the home of memory formats")["home"].partition(".")[0] == "torch"


def test_the_output_of_a_worker_that_raises_is_in_the_message(run):
    with pytest.raises(
        fresh_process.FreshProcessError, match=r"exited with status 1:\n[\s\S]*ValueError: no such"
    ):
        run("raise")


def test_the_signal_that_killed_a_worker_is_named_with_its_last_step(run):
    with pytest.raises(
        fresh_process.FreshProcessError,
        match=r"^a fresh process was killed by SIGKILL in step 'call it':",
    ):
        run("die")


def await_end(pid):
    for _ in range(100):
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process that the fresh process started lives on")


def pids_in(error, kind):
    lines = str(error).splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith(f"{kind} ")]


@pytest.mark.long
def test_a_worker_that_hangs_is_ended_with_its_children_and_shows_its_stacks(run):
    with pytest.raises(
        fresh_process.FreshProcessError, match=r"longer than 8 s:\n[\s\S]*in hang"
    ) as raised:
        run("hang", timeout_s=8)
    (child,) = pids_in(raised.value, "child")
    await_end(child)


#: Starts a process in another session, as torchrun does, which writes its stacks, and waits.
_LAUNCHER = """
import subprocess, sys
started = subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
print("launched", started.pid, flush=True)
started.wait()
"""
_LAUNCHED = """
import time
from compilegate.observe import stacks
stacks.write_on_request()

def wait_for_ever():
    time.sleep(1000)

wait_for_ever()
"""


def test_processes_in_other_sessions_show_their_stacks_and_are_ended(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    with pytest.raises(
        fresh_process.FreshProcessError, match=r"did nothing for 3 s:\n[\s\S]*in wait_for_ever"
    ) as raised:
        fresh_process.run_command([sys.executable, "-c", _LAUNCHER, _LAUNCHED], beat, idle_s=3)
    (launched,) = pids_in(raised.value, "launched")
    await_end(launched)


def test_a_process_that_makes_progress_is_not_ended():
    """Its limits begin again at each change."""
    seen = iter(range(1000))
    wait = [sys.executable, "-c", "import time; time.sleep(3); print('done')"]
    written = fresh_process.run_command(
        wait, beat, timeout_s=1, idle_s=1, progress=lambda: next(seen)
    )
    assert written == "done"
