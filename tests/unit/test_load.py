"""What others take of the processor is told apart from what is ours."""

import os
import subprocess
import sys
import time

import pytest

from compilegate.observe.measure.contention import OtherLoad, session_s

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
def test_the_share_of_others_is_what_is_busy_and_not_ours(monkeypatch, busy_s, own_s, share):
    readings = iter([(100.0, 50.0, 7.0), (110.0, 50.0 + busy_s, 7.0 + own_s)])
    monkeypatch.setattr(OtherLoad, "_now", staticmethod(lambda: next(readings)))
    assert OtherLoad().share() == pytest.approx(share)


def test_the_share_of_others_is_read_from_this_machine():
    load = OtherLoad()
    time.sleep(0.05)
    assert 0.0 <= load.share() <= 1.0


@pytest.fixture
def burnt():
    """Starts a session of its own that burns processor time, and sleeps then."""
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


def test_what_a_session_burns_is_its_own_and_not_another_s(burnt):
    ours = burnt(0.3)
    before = session_s(ours)
    assert before >= 0.2
    assert burnt(0.9) != ours
    assert session_s(ours) - before < 0.3
