"""Fresh processes run a worker and return its answer, or say how it failed."""

import os
import signal
import sys
import time

import pytest
import torch

from compilegate.observe.practices import fresh_process

WORKER = "tests.unit.fresh_workers"


def beat():
    pass


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run one of the workers of these tests, found from the root of the repository."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))

    def started(task, **options):
        return fresh_process.run(WORKER, {"task": task}, tmp_path, beat, **options)

    return started


def test_a_worker_answers_once_with_tensors_and_values(run):
    answer = run("double", environment={"FRESH": "yes"})
    assert torch.equal(answer["doubled"], torch.tensor([2.0, 4.0]))
    assert (answer["pid"] != os.getpid(), answer["fresh"]) == (True, "yes")
    with pytest.raises(fresh_process.FreshProcessError, match="ended without an answer"):
        run("be silent")  # the earlier answer is not taken for its own


def test_the_output_of_a_worker_that_raises_is_in_the_message(run):
    with pytest.raises(
        fresh_process.FreshProcessError, match=r"exited with status 1:\n[\s\S]*ValueError: no such"
    ):
        run("raise")


def test_the_signal_that_killed_a_worker_is_named(run):
    with pytest.raises(fresh_process.FreshProcessError, match="was killed by SIGKILL"):
        run("die")


def test_a_worker_that_hangs_is_ended_with_its_children_and_shows_its_stacks(run):
    with pytest.raises(
        fresh_process.FreshProcessError, match=r"longer than 8 s:\n[\s\S]*in hang"
    ) as raised:
        run("hang", timeout_s=8)
    (line,) = (line for line in str(raised.value).splitlines() if line.startswith("child "))
    child = int(line.split()[1])
    for _ in range(100):
        try:
            os.kill(child, signal.SIGCONT)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the child of the fresh process lives on")
