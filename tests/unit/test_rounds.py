"""Timing in paired rounds: their length, number and order."""

import time
from types import SimpleNamespace

import pytest
import torch

from compilegate.observe.device import cpu, device
from compilegate.observe.measure import rounds as measure
from compilegate.observe.measure.rounds import paired_rounds
from compilegate.records.statistics import FEWEST_ROUNDS

MOST_ROUNDS = 120


def sleeps(seconds):
    return lambda: time.sleep(seconds)


def rounds(eager, compiled, *, threshold=1.0, budget_s=5.0, seed=0, **given):
    given = {"device": device("cpu"), "seed": seed, **given}
    return paired_rounds(eager, compiled, threshold=threshold, budget_s=budget_s, **given)


class Clock:
    """A clock that only steps move, so that rounds are exact and take no time."""

    def __init__(self, monkeypatch):
        self.now_ns = 0
        ours = SimpleNamespace(
            perf_counter_ns=lambda: self.now_ns,
            monotonic=lambda: self.now_ns / 1e9,
        )
        monkeypatch.setattr(measure, "time", ours)
        monkeypatch.setattr(cpu, "time", ours)

    def step(self, *cycle_ns, log=None):
        calls = 0

        def step():
            nonlocal calls
            self.now_ns += cycle_ns[calls % len(cycle_ns)]
            calls += 1
            if log is not None:
                log.append(step)

        return step


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture(autouse=True)
def an_idle_machine(monkeypatch):
    monkeypatch.setattr(measure.OtherProcesses, "share", lambda self: 0.0)


def test_both_sides_have_the_same_number_of_rounds_within_the_limits():
    timing = rounds(sleeps(0.0021), sleeps(0.0021), budget_s=1.0)
    assert len(timing.eager_ns) == len(timing.compiled_ns)
    assert FEWEST_ROUNDS <= len(timing.eager_ns) <= MOST_ROUNDS
    assert timing.iterations >= 1
    assert min(*timing.eager_ns, *timing.compiled_ns) >= 2e6


def test_a_much_slower_side_has_longer_rounds(clock):
    timing = rounds(clock.step(20_000_000), clock.step(1_000_000), threshold=2.0)
    assert min(timing.eager_ns) > sorted(timing.compiled_ns)[len(timing.compiled_ns) // 2]


def test_a_round_is_recorded_as_the_time_of_one_call(clock):
    timing = rounds(clock.step(3_000_000), clock.step(1_500_000))
    assert timing.iterations == 2
    assert set(timing.eager_ns) == {3_000_000}
    assert set(timing.compiled_ns) == {1_500_000}


def test_each_round_shows_that_the_case_makes_progress(clock):
    beats = []
    timing = rounds(clock.step(3_000_000), clock.step(1_500_000), beat=lambda: beats.append(True))
    assert len(beats) == len(timing.eager_ns)


def test_a_round_has_as_many_quick_calls_as_the_shortest_round_needs(clock):
    timing = rounds(clock.step(100_000), clock.step(50_000))
    assert timing.iterations == 48
    assert set(timing.eager_ns) == {100_000}
    assert set(timing.compiled_ns) == {50_000}


@pytest.mark.parametrize(("share", "one_thread_ns"), [(0.6, 30_000), (0.1, 0)])
def test_next_to_others_an_eager_call_is_timed_with_one_thread(
    monkeypatch, clock, share, one_thread_ns
):
    def waits():
        clock.now_ns += 7_000_000 if torch.get_num_threads() > 1 else 30_000

    monkeypatch.setattr(measure.OtherProcesses, "share", lambda self: share)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        timing = rounds(waits, waits)
    finally:
        torch.set_num_threads(threads)
    assert (timing.eager_ns[0], timing.one_thread_ns) == (7_000_000, one_thread_ns)


@pytest.mark.parametrize("latency_ns", [0, 20_000, 1_000_000])
def test_a_round_is_long_enough_where_calls_overlap(monkeypatch, latency_ns):
    """On a GPU a round waits for its first call only; the next ones run at the same time."""
    lasted = []

    def elapsed_ns(self, step, calls):
        lasted.append(latency_ns + calls * 50_000)
        return lasted[-1]

    monkeypatch.setattr(cpu.Cpu, "elapsed_ns", elapsed_ns)
    timing = rounds(sleeps(0), sleeps(0))
    assert min(lasted[-len(timing.eager_ns) :]) >= 2e6
    assert timing.iterations <= 48


def test_one_interruption_does_not_make_rounds_too_short(monkeypatch):
    seen, lasted = set(), []

    def elapsed_ns(self, step, calls):
        latency_ns = 1_000_000 if calls == 1 else 0
        interruption_ns = 0 if calls == 1 or (step, calls) in seen else 5_000_000
        seen.add((step, calls))
        lasted.append(latency_ns + calls * 20_000 + interruption_ns)
        return lasted[-1]

    monkeypatch.setattr(cpu.Cpu, "elapsed_ns", elapsed_ns)
    timing = rounds(sleeps(0), sleeps(0))
    assert min(lasted[-len(timing.eager_ns) :]) >= 2e6


def test_a_much_slower_side_limits_the_calls_in_a_round(clock):
    """A side that compiles in each call, for example, still fits the time budget."""
    timing = rounds(clock.step(25_000), clock.step(1_000_000_000), budget_s=10.0)
    assert timing.iterations == 1
    assert len(timing.eager_ns) == FEWEST_ROUNDS
    assert clock.now_ns < 30e9


def test_a_round_has_a_limited_number_of_calls(clock):
    assert rounds(clock.step(10), clock.step(10)).iterations == 200


def test_a_clear_speedup_needs_few_rounds(clock):
    assert len(rounds(clock.step(4_000_000), clock.step(2_000_000)).eager_ns) == 30


def test_a_clear_slowdown_needs_few_rounds(clock):
    assert len(rounds(clock.step(2_000_000), clock.step(4_000_000)).eager_ns) == 30


def test_an_unclear_speedup_ends_after_the_most_rounds(clock):
    timing = rounds(clock.step(2_000_000, 4_000_000), clock.step(3_000_000), budget_s=1e9)
    assert len(timing.eager_ns) == len(timing.compiled_ns) == MOST_ROUNDS


def test_a_used_up_budget_still_leaves_enough_rounds(clock):
    timing = rounds(clock.step(4_000_000_000), clock.step(2_000_000_000), budget_s=1.0)
    assert len(timing.eager_ns) == len(timing.compiled_ns) == FEWEST_ROUNDS


def test_the_same_step_can_be_both_sides(clock):
    """Eager against itself shows the noise of a machine."""
    step = clock.step(2_000_000)
    timing = rounds(step, step)
    assert len(timing.eager_ns) == len(timing.compiled_ns) <= MOST_ROUNDS


def test_each_round_times_both_sides_in_random_order(clock):
    log = []
    eager, compiled = clock.step(4_000_000, log=log), clock.step(2_000_000, log=log)
    timing = rounds(eager, compiled)
    timed = log[-2 * len(timing.eager_ns) :]
    pairs = [tuple(timed[i : i + 2]) for i in range(0, len(timed), 2)]
    assert {frozenset(pair) for pair in pairs} == {frozenset((eager, compiled))}
    assert set(pairs) == {(eager, compiled), (compiled, eager)}


def test_the_seed_determines_the_order(clock):
    def order(seed):
        log = []
        rounds(eager := clock.step(4_000_000, log=log), clock.step(2_000_000, log=log), seed=seed)
        return [step is eager for step in log]

    assert order(0) == order(0)
    assert order(0) != order(1)
