"""Somebody sets the wall clock while a case runs: no duration and no file is lost to it."""

import time

import pytest
import torch

from compilegate.observe.cache_repair import remove_truncated
from compilegate.observe.wall_clock import WallClock
from tests.unit.observed import Linear, observation

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


def test_compile_time_is_that_of_the_call_if_the_clock_was_set_while_it_compiled(monkeypatch):
    right, right_ns, jumps = time.time, time.time_ns, []

    @torch._dynamo.assume_constant_result
    def set_clock():
        """Dynamo calls this while it traces."""
        jumps.append(3 * HOUR_S)
        monkeypatch.setattr(time, "time", lambda: right() + sum(jumps))
        monkeypatch.setattr(time, "time_ns", lambda: right_ns() + int(sum(jumps)) * 10**9)
        return 0

    def jump(x, y):
        set_clock()
        return y

    seen = observation(lambda: Linear(jump)).compile_time
    assert jumps
    assert 0 < seen.total_s == seen.first_call_s < HOUR_S
    calm = observation(Linear).compile_time
    assert 0 < calm.dynamo_s <= calm.total_s < calm.first_call_s
