"""What others take of the processor is told apart from what is ours."""

import os
import subprocess
import sys
import time

import pytest

from fixtures.observe.load import OtherLoad

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


def burn(seconds, *, command=()):
    """A process that keeps one core busy, ours or, as a daemon, a stranger."""
    spin = f"import time\nwhile time.process_time() < {seconds}: pass"
    return subprocess.Popen([*command, sys.executable, "-c", spin])


def seen_while_burning(**how):
    """The processor time of one core that counts as others', of what is burnt here."""
    quiet = OtherLoad()
    time.sleep(0.5)
    before = quiet.share()
    process = burn(2.0, **how)
    time.sleep(0.3)
    load = OtherLoad()
    time.sleep(0.5)
    share = load.share()
    process.kill()
    process.wait()
    return (share - before) * CORES


def test_what_a_stranger_burns_is_not_ours():
    assert seen_while_burning(command=("setsid", "-f")) > seen_while_burning() + 0.3
