"""A hang is distinguished from slow work and from a busy machine, in real processes.

The fork server runs as in a session, but without torch, so that a case starts at once.
"""

import os
import subprocess
import sys

import pytest

from compilegate.processes.child_output import OBSERVING
from compilegate.records.observation import BUSY_MACHINE
from tests.integration.served import observing

observe = pytest.fixture(observing)


@pytest.fixture
def crowded():
    """Lets this process and its children share one processor with four loops that never end."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    # Where the kernel groups processes by session, each loop gets as much as a case.
    words = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(words, start_new_session=True) for _ in range(4)]
    yield
    os.sched_setaffinity(0, before)
    for loop in loops:
        loop.kill()
        loop.wait()


def assert_hangs(made, verdict, limit_s):
    summary = f"timed out in stage 'eager': no progress for {limit_s:g} s"
    assert (verdict.outcome, verdict.summary) == ("failed", summary)
    assert (made.status, made.failure.kind) == ("timed_out", "timeout")


def was_crowded_out(made, verdict):
    """Whether others, such as other tests, took so much that the case is inconclusive."""
    if made.failure is None or made.failure.kind != BUSY_MACHINE:
        return False
    return verdict.outcome == "inconclusive" and made.failure.others_took > 0.5


THREADS_AND_SLEEPS = """
import threading, time

def waits():
    time.sleep(600)

def observes():
    time.sleep(600)

for _ in range(3):
    threading.Thread(target=waits, daemon=True).start()
send(stage="eager")
observes()
"""


def test_a_case_that_sleeps_hangs_and_its_stack_comes_first(observe):
    made, verdict = observe(THREADS_AND_SLEEPS, 1.0)
    assert_hangs(made, verdict, 1)
    head, frame, *others = made.failure.output.splitlines()
    assert head.endswith(f"{OBSERVING}:")
    assert frame.endswith('case.py", line 8 in observes')
    assert sum(line.endswith("in waits") for line in others) == 3
    assert made.failure.others_took is not None


BLOCKED = """
import ctypes, signal, threading, time
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
send(stage="eager")

def observes():
    WAIT

observes()
"""


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param("time.sleep(600)", id="in Python"),
        pytest.param("ctypes.PyDLL(None).sleep(600)", id="in C, with the interpreter's lock"),
    ],
)
def test_a_case_that_blocks_every_signal_shows_its_stack(observe, wait):
    made, verdict = observe(BLOCKED.replace("WAIT", wait), 1.0)
    assert_hangs(made, verdict, 1)
    head, frame, *_ = made.failure.output.splitlines()
    assert head.endswith(f"{OBSERVING}:")
    assert frame.endswith("in observes")
    assert "no Python frame" not in made.failure.output


def test_a_process_that_writes_no_stacks_is_described_by_the_kernel(observe):
    code = "import os, signal\nsend(stage='eager')\nos.kill(os.getpid(), signal.SIGSTOP)"
    made, verdict = observe(code, 1.0)
    assert_hangs(made, verdict, 1)
    assert "state T (stopped)" in made.failure.output
    assert OBSERVING not in made.failure.output


def test_a_case_that_waits_for_a_process_that_sleeps_hangs(observe):
    code = "import subprocess; subprocess.run(['sleep', '600'])"
    made, verdict = observe(f"send(stage='eager')\n{code}", 1.0)
    assert_hangs(made, verdict, 1)
    head, *_ = made.failure.output.splitlines()
    assert head.endswith(f"{OBSERVING}:")
    assert "case.py" in made.failure.output
    assert "(sleep): state S (sleeping)" in made.failure.output


def test_a_case_that_spins_hangs(observe):
    made, verdict = observe("send(stage='eager')\nwhile True: pass", 1.0)
    if not was_crowded_out(made, verdict):
        assert_hangs(made, verdict, 1)
        assert "case.py" in made.failure.output


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("for _ in range(12): send(stage='eager'); burn(0.2)", id="makes calls"),
        pytest.param(
            "import subprocess, sys\n"
            "spin = 'import time\\nwhile time.process_time() < 2.4: pass'\n"
            "subprocess.run([sys.executable, '-c', spin])",
            id="waits for a compiler",
        ),
    ],
)
def test_a_case_that_makes_progress_may_take_longer_than_the_limit(observe, code):
    made, verdict = observe(f"{code}\nend()", 2.0)
    assert made.status == "completed" or was_crowded_out(made, verdict)


def test_a_case_that_never_ends_is_ended_although_it_makes_progress(observe):
    code = "import time\nwhile True:\n    send(stage='eager')\n    time.sleep(0.1)"
    _, verdict = observe(code, 0.5)
    assert verdict.outcome == "failed"
    assert "it made progress, but did not end within 1.5 s" in verdict.summary


def test_a_case_that_waits_for_the_processor_never_fails(crowded, observe):
    made, verdict = observe("send(stage='eager')\nburn(1.0)\nend()", 2.0)  # 5 s and more
    assert made.status == "completed" or was_crowded_out(made, verdict)


def test_a_busy_machine_is_inconclusive(crowded, observe):
    made, verdict = observe("while True: send(stage='eager'); burn(0.01)", 0.5)
    assert (made.status, made.failure.kind) == ("timed_out", BUSY_MACHINE)
    assert 0.5 < made.failure.others_took < 1
    busy = f"the machine was busy (other processes took {made.failure.others_took:.0%})"
    assert (verdict.outcome, verdict.summary) == (
        "inconclusive",
        f"timed out in stage 'eager': {busy}: it did not end within 3 s",
    )
