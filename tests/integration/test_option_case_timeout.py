"""``--case-timeout SECONDS``: a case that hangs is killed, its neighbours are not."""

import re

import pytest

from tests.integration.conftest import MATVEC


def test_a_hanging_case_times_out_and_its_neighbours_pass(hostile):
    assert hostile.outcomes("hangs") == {"failed"}
    (summary,) = set(hostile.failed("hangs").values())
    assert summary == "timed out in stage 'eager': no progress for 20 s"
    assert hostile.outcomes("segfaults") == {"failed"}
    assert hostile.outcomes("healthy_last") == {"passed"}


def test_the_stack_shows_where_it_hung(hostile):
    message = hostile.message("test_outputs_match_eager[hangs-cpu-infer-f32-default-static]")
    assert 'tests/zoos/hostile.py", line' in message
    assert "in forward" in message
    threads = [line for line in message.splitlines() if line.strip().startswith("Thread 0x")]
    assert len(threads) >= 2
    assert threads[0].endswith("the thread that observes the case:")
    assert re.search(r"the thread that observes the case:\n.*hostile\.py.* in hang\n", message)


@pytest.mark.parametrize("seconds", ["0", "-3", "nan"])
def test_a_limit_of_zero_seconds_is_refused(compilegate, seconds):
    session = compilegate("--cases", MATVEC, "--case-timeout", seconds)
    assert session.status == 4
    assert f"--case-timeout {seconds}: expected seconds above 0" in session.output
