"""The processor time of other processes is distinguished from that of this session."""

import os
import subprocess
import sys
import time

import pytest

from compilegate.observe.measure.contention import OtherProcesses, _Seconds, session_s, tree_s

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("busy_s", "own_s", "share"),
    [
        pytest.param(0.0, 0.0, 0.0, id="idle"),
        pytest.param(4.0, 4.0, 0.0, id="all of it ours"),
        pytest.param(10.0 * CORES, 0.0, 1.0, id="none of it ours"),
        pytest.param(10.0 * CORES, 5.0 * CORES, 0.5, id="half of it ours"),
        pytest.param(3.99, 4.0, 0.0, id="the kernel counts in ticks"),
        pytest.param(11.0 * CORES, 0.0, 1.0, id="never more than all"),
    ],
)
def test_the_share_of_others_is_busy_time_without_our_own(monkeypatch, busy_s, own_s, share):
    end = _Seconds(110.0, 50.0 + busy_s, 7.0 + own_s)
    readings = iter([_Seconds(100.0, 50.0, 7.0), end])
    monkeypatch.setattr(OtherProcesses, "_now", staticmethod(lambda: next(readings)))
    assert OtherProcesses().share() == pytest.approx(share)


def test_the_share_of_others_is_read_from_this_machine():
    others = OtherProcesses()
    time.sleep(0.05)
    assert 0.0 <= others.share() <= 1.0


@pytest.fixture
def burnt():
    """Starts a new session that uses processor time and then sleeps."""
    started = []

    def burn(seconds):
        spin = f"import time\nwhile time.process_time() < {seconds}: pass\ntime.sleep(600)"
        started.append(subprocess.Popen([sys.executable, "-c", spin], start_new_session=True))
        deadline = time.monotonic() + 60
        while session_s(started[-1].pid) < seconds - 0.1:  # the kernel counts in ticks
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return started[-1].pid

    yield burn
    for process in started:
        process.kill()
        process.wait()


def test_the_time_of_one_session_does_not_count_for_another(burnt):
    ours = burnt(0.3)
    before = session_s(ours)
    assert before >= 0.2
    assert burnt(0.9) != ours
    assert session_s(ours) - before < 0.3


def test_the_time_of_a_descendant_counts_in_any_session(burnt):
    before = tree_s(os.getpid())
    burning = burnt(0.3)
    assert tree_s(os.getpid()) - before > 0.1
    assert tree_s(burning) > 0.1
