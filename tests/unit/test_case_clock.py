"""The clock of a case, with made-up readings: what runs, what waits, and what ends a case."""

import pytest

from compilegate.processes.case_clock import CaseClock, Work

#: One thread that computes, alone on its processor or with others that take four fifths of it.
ALONE = Work(ran_s=5.0)
STARVED = Work(ran_s=1.0, waited_s=4.0)


def advanced(work, *, intervals=1, limit_s=300.0, beat=False, wall_s=5.0):
    clock = CaseClock(limit_s)
    for _ in range(intervals):
        clock.advance(wall_s, work, beat=beat)
    return clock


@pytest.mark.parametrize(
    ("work", "own_s", "others_took"),
    [
        pytest.param(Work(), 5.0, 0.0, id="sleeps"),
        pytest.param(ALONE, 5.0, 0.0, id="computes alone"),
        pytest.param(STARVED, 1.0, 0.8, id="others take four fifths"),
        pytest.param(Work(ran_s=0.1, waited_s=0.4), 4.6, 0.8, id="mostly sleeps"),
        pytest.param(Work(ran_s=10.0, waited_s=140.0, cores=2), 5.0, 0.0, id="30 of its own on 2"),
        pytest.param(Work(ran_s=4.0, waited_s=26.0, cores=2), 2.0, 0.6, id="6 and others on 2"),
        pytest.param(Work(ran_s=2.5, waited_s=2.5, cores=64), 2.5, 0.5, id="one thread of many"),
        pytest.param(Work(ran_s=2.5, waited_s=5.0, cores=0.5), 5.0, 0.0, id="its quota, used up"),
        pytest.param(Work(ran_s=9.0, waited_s=9.0), 5.0, 0.0, id="more than an interval holds"),
        pytest.param(Work(ran_s=1.0, waited_s=None), 5.0, None, id="the kernel does not count"),
    ],
)
def test_the_clock_runs_less_what_others_took(work, own_s, others_took):
    clock = advanced(work)
    assert (clock.wall_s, clock.own_s) == (5.0, pytest.approx(own_s))
    assert clock.others_took == (others_took and pytest.approx(others_took))


def test_an_interval_of_no_length_changes_nothing():
    clock = advanced(STARVED, wall_s=0.0)
    assert (clock.own_s, clock.reached) == (0.0, None)


@pytest.mark.parametrize("work", [Work(), ALONE], ids=["sleeps", "spins"])
def test_what_makes_no_progress_hangs(work):
    assert advanced(work, intervals=59).reached is None
    clock = advanced(work, intervals=60)
    assert clock.reached == "no progress"
    assert clock.why("no progress") == "no progress for 300 s"


def test_what_makes_progress_goes_on_past_the_limit():
    assert advanced(ALONE, intervals=179, beat=True).reached is None


def test_progress_begins_the_limit_again():
    clock = advanced(ALONE, intervals=59)
    clock.advance(5.0, ALONE, beat=True)
    assert clock.quiet_s == 0.0
    for _ in range(59):
        clock.advance(5.0, ALONE, beat=False)
    assert clock.reached is None
    clock.advance(5.0, ALONE, beat=False)
    assert clock.reached == "no progress"


def test_what_never_ends_is_ended_although_it_makes_progress():
    clock = advanced(ALONE, intervals=180, beat=True)
    assert clock.reached == "no end"
    assert clock.why("no end") == "it made progress, but did not end within 900 s"


def test_what_waits_for_the_processor_does_not_hang():
    clock = advanced(STARVED, intervals=299)  # 1495 s, of which 299 s are its own
    assert clock.reached is None


def test_what_spins_on_a_busy_machine_hangs_once_its_own_time_is_over():
    assert advanced(STARVED, intervals=300).reached == "no progress"


@pytest.mark.parametrize("beat", [True, False])
def test_a_busy_machine_is_the_reason_where_others_took_most(beat):
    starved = Work(ran_s=0.5, waited_s=4.5)
    assert advanced(starved, intervals=359, beat=beat).reached is None
    clock = advanced(starved, intervals=360, beat=beat)
    assert clock.reached == "busy machine"
    assert clock.why("busy machine") == (
        "the machine was busy (other processes took 90%): it did not end within 1800 s"
    )


def test_without_counts_of_the_kernel_the_clock_is_the_wall():
    clock = advanced(Work(ran_s=0.5, waited_s=None), intervals=60)
    assert (clock.reached, clock.others_took) == ("no progress", None)
    assert advanced(Work(ran_s=0.5, waited_s=None), intervals=360, beat=True).reached == "no end"
