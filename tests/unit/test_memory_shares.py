"""Cases of several workers are observed together as far as their memory fits."""

import contextlib
import subprocess
import sys

import pytest

from compilegate.processes import memory_shares
from compilegate.processes.memory_shares import MemoryShares

_TAKE = """\
import sys, time
from pathlib import Path
from compilegate.processes.memory_shares import MemoryShares

with MemoryShares(Path(sys.argv[1]), 10).taken(8):
    print("taken", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """Makes workers that share 10 bytes."""
    monkeypatch.setattr(memory_shares, "_LOOK_S", 0.01)
    monkeypatch.setattr(memory_shares, "_REPORT_S", 0.05)
    with contextlib.ExitStack() as made:

        def make():
            shares = MemoryShares(tmp_path, 10)
            made.callback(shares.close)
            return shares

        yield make


def test_cases_that_fit_do_not_wait(worker):
    def waiting():
        raise AssertionError("it waits")

    first, second = worker(), worker()
    with first.taken(4, waiting), second.taken(6, waiting):
        pass


def test_a_case_that_holds_more_than_was_planned_keeps_others_waiting(worker):
    first, second = worker(), worker()
    waited = []
    with first.taken(3) as hold:

        def waiting():
            waited.append(True)
            hold(1)  # less than was planned: the plan counts again

        hold(8)
        with second.taken(7, waiting):
            assert waited
        waited.clear()
        with second.taken(7, waiting):
            assert not waited


def test_a_case_that_does_not_fit_waits_until_the_memory_is_free(worker):
    first, second = worker(), worker()
    held = contextlib.ExitStack()
    held.enter_context(first.taken(5))
    waited = []

    def waiting():
        waited.append(True)
        held.close()

    with second.taken(6, waiting):
        assert waited


def test_a_case_that_wants_more_than_there_is_gets_all_of_it(worker):
    with worker().taken(99):
        pass


def test_the_memory_of_a_dead_worker_is_free(worker, tmp_path):
    dead = subprocess.Popen(
        [sys.executable, "-c", _TAKE, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert dead.stdout.readline() == "taken\n"

    def waiting():
        dead.kill()
        dead.communicate()

    with worker().taken(5, waiting):
        assert dead.returncode is not None
