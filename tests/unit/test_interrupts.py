"""Two interrupts at once are one."""

import signal
import time

import pytest

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


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])
def test_a_handler_is_set_where_nobody_else_has_one_and_given_back(before):
    ours = signal.signal(signal.SIGINT, before)
    try:
        with taken_together():
            is_set = isinstance(signal.getsignal(signal.SIGINT), Interrupts)
        assert is_set is (before is signal.default_int_handler)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, ours)
