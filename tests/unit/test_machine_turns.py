"""While one worker times, the children of all others stand still, and none stays stopped."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from compilegate.processes import file_locks, machine_turns, stopping
from compilegate.processes.machine_turns import MachineTurns

#: A supervisor, a fork server, a child that computes, and a compiler that the child has started.
_TREE = "sh -c \"sh -c 'while :; do :; done & while :; do :; done' & wait\" & wait"
_HOLD = """\
import sys, time
from pathlib import Path
from compilegate.processes.machine_turns import MachineTurns

turns = MachineTurns(Path(sys.argv[1]))
turns.take()
print("alone", flush=True)
time.sleep(600)
"""


def eventually(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


def descendants(pid):
    found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*found, *(below for child in found for below in descendants(child))]


def states(pids):
    return {Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] for pid in pids}


def ticks(pids):
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in pids]
    return sum(int(count) for one in fields for count in one[11:13])


class Tree:
    """The processes of one worker."""

    def __init__(self):
        self.process = subprocess.Popen(["sh", "-c", _TREE], start_new_session=True)
        self.supervisor = self.process.pid
        eventually(lambda: len(descendants(self.supervisor)) == 3)
        self.server, *self.children = descendants(self.supervisor)

    def end(self):
        for pid in (self.supervisor, self.server, *self.children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def tree():
    made = Tree()
    yield made
    made.end()


@pytest.fixture
def worker(tmp_path):
    """Makes workers of one session."""
    with contextlib.ExitStack() as made:

        def make(tree=None):
            turns = MachineTurns(tmp_path)
            made.callback(turns.close)
            if tree is not None:
                turns.add(tree.supervisor)
            return turns

        yield make


def test_a_compiler_of_another_worker_does_not_run_in_a_turn(worker, tree):
    other, holder = worker(tree), worker()
    before = ticks(tree.children)
    eventually(lambda: ticks(tree.children) > before)
    holder.take()
    assert states(tree.children) == {"T"}
    assert "T" not in states([tree.supervisor, tree.server]), "they end what a dead worker leaves"
    stopped = ticks(tree.children)
    time.sleep(0.3)
    assert ticks(tree.children) == stopped
    holder.give_back()
    eventually(lambda: ticks(tree.children) > stopped)
    assert 0.3 < other.stopped_s == float(other.account.read_text())


def test_the_holders_own_children_run_in_its_turn(worker, tree):
    holder = worker(tree)
    worker()
    holder.take()
    before = ticks(tree.children)
    eventually(lambda: ticks(tree.children) > before)
    assert holder.stopped_s == 0


def test_children_go_on_when_the_holder_is_killed(worker, tree, tmp_path):
    worker(tree)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "alone\n"
    assert states(tree.children) == {"T"}
    holder.kill()
    holder.communicate()
    eventually(lambda: "T" not in states(tree.children))


def test_one_worker_has_the_turn_at_a_time(worker, monkeypatch):
    monkeypatch.setattr(machine_turns, "_REPORT_S", 0.1)
    first, second = worker(), worker()
    first.take()
    waited = []

    def waiting():
        waited.append(True)
        first.give_back()

    second.take(waiting)
    assert waited, "it waited until the first one gave the turn back"


@pytest.mark.parametrize("does", ["", "turns.starting().__enter__()\n"], ids=["idle", "starting"])
def test_a_dead_worker_is_not_waited_for(does, worker, tmp_path):
    script = _HOLD.replace("turns.take()\n", does)
    dead = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert dead.stdout.readline() == "alone\n"
    dead.kill()
    dead.communicate()
    worker().take()


def test_nothing_is_started_in_the_turn_of_another_worker(worker, tree):
    other, holder = worker(tree), worker()
    holder.take()
    assert states(tree.children) == {"T"}
    assert not other._gate.acquire(blocking=False)
    holder.give_back()
    with other.starting():
        assert other.stopped_s == float(other.account.read_text()) > 0


def test_others_go_on_while_a_turn_waits_for_a_process_that_starts(worker, tree):
    starter, holder = worker(), worker()
    worker(tree)
    taking = threading.Thread(target=holder.take, daemon=True)
    with starter.starting():
        taking.start()
        for _ in range(3):
            before = ticks(tree.children)
            eventually(lambda before=before: ticks(tree.children) > before)
        taking.join(0.3)
        assert taking.is_alive()
        assert "T" not in states(tree.children)
    taking.join(60)
    assert not taking.is_alive()
    assert states(tree.children) == {"T"}


def test_a_worker_that_closes_in_the_turn_of_another_leaves_nothing_stopped(worker, tree, tmp_path):
    other, holder = MachineTurns(tmp_path), worker()
    other.add(tree.supervisor)
    holder.take()
    assert states(tree.children) == {"T"}
    other.close()
    assert "T" not in states(tree.children)


def test_a_process_that_was_killed_while_it_was_stopped_is_not_continued(tree):
    stopped = stopping.stop([tree.supervisor])
    assert set(stopped) == set(tree.children)
    for pid in tree.children:
        os.kill(pid, signal.SIGKILL)
    stopping.go_on(stopped)


def test_there_are_no_locks_without_a_folder(tmp_path):
    assert file_locks.are_possible(tmp_path)
    assert not file_locks.are_possible(tmp_path / "missing")
