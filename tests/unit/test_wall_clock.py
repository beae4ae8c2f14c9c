"""Somebody sets the wall clock while a case runs: no duration and no file is lost to it."""

import time

import pytest

from compilegate.observe.cache_repair import remove_truncated
from compilegate.observe.wall_clock import WallClock

HOUR_S = 3600.0


@pytest.fixture
def clock(monkeypatch):
    """Sets the wall clock of this process."""
    right = time.time

    def set_by(seconds):
        monkeypatch.setattr(time, "time", lambda: right() + seconds)

    return set_by


@pytest.mark.parametrize("seconds", [3 * HOUR_S, -3 * HOUR_S, 2.0, -2.0])
def test_a_clock_that_was_set_is_noticed(clock, seconds):
    wall = WallClock()
    clock(seconds)
    assert wall.was_set


@pytest.mark.parametrize("seconds", [0.0, -3 * HOUR_S])
def test_a_clock_that_runs_on_is_right_even_if_it_was_set_before(clock, seconds):
    clock(seconds)
    wall = WallClock()
    time.sleep(0.2)
    assert not wall.was_set


@pytest.mark.parametrize("seconds", [0.0, 3 * HOUR_S, -3 * HOUR_S])
def test_files_of_both_settings_are_new(clock, seconds):
    began = time.time()
    wall = WallClock()
    written = [time.time()]
    clock(seconds)
    written.append(time.time())
    assert min(written) >= wall.earliest_s - 0.01
    assert wall.earliest_s >= min(began, began + seconds) - 0.01


def test_a_library_that_a_killed_compiler_left_is_found_although_the_clock_was_set_back(
    tmp_path, clock
):
    clock(3 * HOUR_S)
    wall = WallClock()
    clock(0.0)
    (tmp_path / "kernel.so").write_bytes(b"half of")
    assert remove_truncated(tmp_path, wall.earliest_s) == [tmp_path / "kernel.so"]
