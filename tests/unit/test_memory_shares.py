"""Cases of several workers are observed together as far as their memory fits."""

import contextlib
import subprocess
import sys
import threading

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


def never():
    raise AssertionError("it waits")


def test_cases_that_fit_do_not_wait(worker):
    first, second = worker(), worker()
    with first.taken(4, never), second.taken(6, never):
        pass


def test_a_case_that_holds_more_than_was_planned_keeps_others_waiting(worker):
    first, second = worker(), worker()
    waited = []
    with first.taken(3) as memory:

        def waiting():
            waited.append(True)
            memory.hold(1)  # less than was planned: the plan counts again

        memory.hold(8)
        with second.taken(7, waiting):
            assert waited
        waited.clear()
        with second.taken(7, waiting):
            assert not waited


def test_a_case_that_needs_less_than_was_planned_leaves_the_rest_to_others(worker):
    first, second = worker(), worker()
    with first.taken(9) as memory:
        memory.reserve(2)
        with second.taken(8, never):
            pass


def test_a_case_that_ran_out_of_memory_keeps_what_it_has(worker):
    first, second = worker(), worker()
    waited = contextlib.ExitStack()
    memory = waited.enter_context(first.taken(9, at_least=9))
    memory.reserve(2)
    with second.taken(8, waited.close):
        pass


def frees_when_asked(shares, taken):
    """Take memory until another case waits for it; return what that calls, and its waits."""
    held, waited = contextlib.ExitStack(), []
    held.enter_context(shares.taken(taken))

    def waiting():
        waited.append(True)
        held.close()

    return waiting, waited


def test_a_case_that_needs_more_waits_until_it_is_free_and_counts_what_it_holds(worker):
    first, second, third = worker(), worker(), worker()
    waiting, waited = frees_when_asked(first, 5)
    with second.taken(5) as memory:
        memory.hold(2)
        memory.reserve(8, waiting)
        assert waited
        with third.taken(2, never):
            pass


def test_cases_that_all_wait_for_each_other_go_on(worker):
    """Each holds what the other needs. One of them may run out of memory, and is tried again."""
    first, second = worker(), worker()
    with first.taken(5) as ours, second.taken(5) as theirs:
        ours.hold(4)
        theirs.hold(4)

        def observe(memory, shares):
            memory.reserve(9)
            shares.write(0)  # it ends

        other = threading.Thread(target=observe, args=(theirs, second))
        other.start()
        observe(ours, first)
        other.join(timeout=60)
        assert not other.is_alive()


def test_a_case_that_does_not_fit_waits_until_the_memory_is_free(worker):
    first, second = worker(), worker()
    waiting, waited = frees_when_asked(first, 5)
    with second.taken(6, waiting):
        assert waited


def waits_in_another_thread(stack, shares, wanted):
    """Let a case wait for memory; return what ends it once it has some."""
    waits = threading.Event()
    ends = threading.Event()

    def observe():
        with shares.taken(wanted, waits.set):
            ends.wait(60)

    other = threading.Thread(target=observe)
    other.start()
    stack.callback(other.join, 60)
    stack.callback(ends.set)
    assert waits.wait(60)
    return ends.set


def test_a_case_that_fits_passes_one_that_waits(worker):
    large, first, small = worker(), worker(), worker()
    with contextlib.ExitStack() as stack:
        held = stack.enter_context(contextlib.ExitStack())
        held.enter_context(first.taken(5))
        waits_in_another_thread(stack, large, 8)
        with small.taken(2, never):
            pass
        held.close()


@pytest.mark.parametrize("patience_for_all_s", [0.0, 600.0])
def test_a_case_that_has_waited_for_long_is_served_first(worker, monkeypatch, patience_for_all_s):
    """One that wants nearly all lets others pass for longer."""
    monkeypatch.setattr(memory_shares, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(memory_shares, "_PATIENCE_FOR_ALL_S", patience_for_all_s)
    large, first, small = worker(), worker(), worker()
    with contextlib.ExitStack() as stack:
        held = stack.enter_context(contextlib.ExitStack())
        held.enter_context(first.taken(5))
        end = waits_in_another_thread(stack, large, 9)
        waited = []

        def waiting():
            waited.append(True)
            held.close()
            end()

        with small.taken(2, waiting):
            assert bool(waited) == (patience_for_all_s == 0.0)
        held.close()


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
