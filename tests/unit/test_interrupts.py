"""Two interrupts at once are one, and SIGTERM is one, too."""

import signal
import subprocess
import sys
import time

import pytest

from compilegate.__main__ import main
from compilegate.commands import doctor
from compilegate.processes.interrupts import Interrupts, taken_together


@pytest.mark.parametrize(("after_s", "interrupts"), [(0.01, 1), (2.0, 2)])
def test_an_interrupt_right_after_another_changes_nothing(after_s, interrupts, monkeypatch):
    handler, seen = Interrupts(), 0
    for now in (100.0, 100.0 + after_s):
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        try:
            handler(signal.SIGINT, None)
        except KeyboardInterrupt:
            seen += 1
    assert seen == interrupts


def test_the_first_interrupt_after_the_machine_started_counts(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    with pytest.raises(KeyboardInterrupt):
        Interrupts()(signal.SIGINT, None)


@pytest.mark.parametrize(
    ("number", "before", "sets"),
    [
        (signal.SIGINT, signal.default_int_handler, True),
        (signal.SIGINT, signal.SIG_IGN, False),
        (signal.SIGTERM, signal.SIG_DFL, True),
        (signal.SIGTERM, signal.SIG_IGN, False),
    ],
)
def test_a_handler_is_set_where_nobody_else_has_one_and_given_back(number, before, sets):
    ours = signal.signal(number, before)
    try:
        with taken_together():
            is_set = isinstance(signal.getsignal(number), Interrupts)
        assert is_set is sets
        assert signal.getsignal(number) is before
    finally:
        signal.signal(number, ours)


def test_sigterm_interrupts_and_sets_the_exit_status():
    handler = Interrupts()
    assert (handler.came, handler.status(1)) == (False, 1)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        handler(signal.SIGTERM, None)
    assert (handler.came, handler.status(1)) == (True, 143)


def test_ctrl_c_leaves_the_exit_status():
    handler = Interrupts()
    with pytest.raises(KeyboardInterrupt):
        handler(signal.SIGINT, None)
    assert (handler.came, handler.status(130)) == (True, 130)


@pytest.mark.parametrize("first", ["SIGINT", "SIGTERM"])
def test_sigterm_after_another_signal_ends_the_process_at_once(first):
    code = f"""
import signal, time
from compilegate.processes import interrupts
now = 100.0
time.monotonic = lambda: now
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
with interrupts.taken_together():
    try:
        signal.raise_signal(signal.{first})
    except KeyboardInterrupt:
        print("first", flush=True)
    now += 0.5
    signal.raise_signal(signal.SIGTERM)
    print("the same", flush=True)
    now += 2
    try:
        signal.raise_signal(signal.SIGTERM)
    except BaseException:
        print("never")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "first\nthe same\n"), done.stderr


@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_command_that_a_signal_ends_says_so(name, status, monkeypatch, capsys):
    number = signal.Signals[name]
    monkeypatch.setattr(doctor, "run", lambda options: signal.raise_signal(number))
    own = signal.SIG_DFL if name == "SIGTERM" else signal.default_int_handler
    before = signal.signal(number, own)
    try:
        assert main(["doctor"]) == status
    finally:
        signal.signal(number, before)
    assert capsys.readouterr().err == f"compilegate: {name} ended it\n"
