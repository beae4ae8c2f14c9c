"""The processes of a case, read from the kernel's accounts."""

import os
import subprocess
import sys
import time

import pytest

from compilegate.processes import process_tree
from compilegate.processes.process_tree import ProcessTree

SPIN = "while True: pass"
#: A process that starts another one and sleeps.
PARENT = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {!r}]); {}"


@pytest.fixture
def start():
    """Starts Python code as the first process of a session, which is killed at the end."""
    started = []

    def run(code):
        started.append(subprocess.Popen([sys.executable, "-c", code], start_new_session=True))
        return started[-1].pid

    yield run
    for process in started:
        os.killpg(process.pid, 9)
        process.wait()


def until(tree, holds):
    """Return the first reading for which a condition holds, and the readings before it."""
    readings = [tree.work()]
    deadline = time.monotonic() + 60
    while not holds(readings[-1]):
        assert time.monotonic() < deadline, readings[-1]
        time.sleep(0.1)
        readings.append(tree.work())
    return readings[-1], readings[:-1]


def settled(tree):
    """Read until a tree is silent: its interpreters have started."""
    until(tree, lambda work: work.ran_s + (work.waited_s or 0.0) < 0.01 and not work.helpers)


def test_a_process_that_sleeps_wants_no_processor_and_has_no_helpers(start):
    tree = ProcessTree(start("import time; time.sleep(600)"))
    settled(tree)
    time.sleep(0.5)
    work = tree.work()
    assert work.ran_s + work.waited_s < 0.1
    assert work.helpers == ()
    assert work.cores <= len(os.sched_getaffinity(0))


def test_a_process_that_spins_runs_or_waits_all_the_time(start):
    tree = ProcessTree(start(SPIN))
    until(tree, lambda work: work.ran_s + work.waited_s > 0.08)  # it has started
    before = time.monotonic()
    time.sleep(0.3)
    work = tree.work()
    wanted_s, elapsed_s = work.ran_s + work.waited_s, time.monotonic() - before
    assert elapsed_s - 0.1 < wanted_s < elapsed_s + 0.1
    assert work.helpers == ()  # it helps nobody: it may hang


def test_a_process_that_works_for_another_is_its_helper(start):
    tree = ProcessTree(start(PARENT.format(SPIN, "time.sleep(600)")))
    until(tree, lambda work: work.helpers)  # it has started
    time.sleep(0.3)
    assert tree.work().helpers == (os.path.basename(sys.executable)[:15],)


def test_a_process_that_waits_for_another_is_no_helper_once_it_has_started(start):
    sleeps = "import time; time.sleep(600)"
    tree = ProcessTree(start(PARENT.format(sleeps, "time.sleep(600)")))
    until(tree, lambda work: work.helpers)
    until(tree, lambda work: work.helpers == ())


def test_what_a_process_did_before_does_not_count(start):
    pid = start("import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(600)")
    settled(ProcessTree(pid))
    assert ProcessTree(pid).work().ran_s < 0.1


def test_a_process_that_has_ended_does_nothing(start):
    pid = start("pass")
    tree = ProcessTree(pid)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    tree.work()
    assert tree.work().ran_s == 0.0


@pytest.mark.parametrize("content", [None, b"0 0 0\n"], ids=["absent", "zeros"])
def test_without_schedstat_processor_time_is_known_and_waiting_is_not(monkeypatch, start, content):
    read = process_tree._read

    def without(path):
        if not path.endswith("schedstat"):
            return read(path)
        if content is None:
            raise FileNotFoundError(path)
        return content

    monkeypatch.setattr(process_tree, "_read", without)
    tree = ProcessTree(start(PARENT.format(SPIN, "time.sleep(600)")))
    work, _ = until(tree, lambda work: work.ran_s > 0.05)
    assert work.waited_s is None
    work, _ = until(tree, lambda work: work.helpers and work.ran_s > 0.05)


@pytest.mark.parametrize(
    ("quota", "cores"), [(b"50000 100000\n", 0.5), (b"max 100000\n", None), (b"", None)]
)
def test_a_quota_of_the_container_limits_the_cores(monkeypatch, quota, cores):
    read = process_tree._read
    monkeypatch.setattr(
        process_tree, "_read", lambda path: quota if path.endswith("cpu.max") else read(path)
    )
    assert ProcessTree(os.getpid()).work().cores == (cores or len(os.sched_getaffinity(0)))
