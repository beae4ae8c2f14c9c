"""The replay clock: pytest-benchmark shows exactly the rounds that were measured."""

import json

import pytest

from compilegate.session.replay_clock import ReplayClock
from tests.unit.making import make_timing

pytest_plugins = ["pytester"]

SHOWN = """
import pytest

from compilegate.records.performance import Timing
from compilegate.session.replay_clock import ReplayClock

CLOCK = ReplayClock()
TIMING = Timing(eager_ns=(4e6, 9e6, 5e6), compiled_ns=(1e6, 2e6, 6e6), iterations=7)

@pytest.mark.parametrize("timing", [TIMING, None, TIMING], ids=["first", "none", "again"])
@pytest.mark.benchmark(timer=CLOCK)
def test_shown(benchmark, timing):
    CLOCK.show(benchmark, timing)
"""


class Pedantic:
    """As much of the ``benchmark`` fixture as is used; makes extra calls where asked to."""

    def __init__(self, timer, extra_calls=0):
        self.timer, self.extra_calls = timer, extra_calls
        self.extra_info, self.rounds_s, self.disabled = {}, [], False

    def pedantic(self, function, rounds):
        if self.disabled:
            function()
            return
        for _ in range(rounds):
            start = self.timer()
            function()
            self.rounds_s.append(self.timer() - start)
        for _ in range(self.extra_calls):
            function()


def test_the_clock_moves_only_when_told():
    clock = ReplayClock()
    assert clock() == clock() == 0.0


def test_the_compiled_rounds_are_played_back_in_order():
    timing = make_timing(2.0, rounds=8, spread=0.5)
    benchmark = Pedantic(clock := ReplayClock())
    clock.show(benchmark, timing)
    assert benchmark.rounds_s == pytest.approx([ns / 1e9 for ns in timing.compiled_ns])
    assert benchmark.extra_info["eager_median_s"] == pytest.approx(1e-3)


def test_calls_beyond_the_rounds_take_no_time():
    benchmark = Pedantic(clock := ReplayClock(), extra_calls=2)
    clock.show(benchmark, make_timing(rounds=8))
    assert clock() == pytest.approx(sum(benchmark.rounds_s))


def test_one_clock_serves_case_after_case():
    clock = ReplayClock()
    for speedup in (1.0, 4.0):
        benchmark = Pedantic(clock)
        clock.show(benchmark, make_timing(speedup, rounds=8))
        assert benchmark.rounds_s == pytest.approx([1e-3 / speedup] * 8)


def test_a_case_that_was_not_timed_leaves_the_fixture_alone():
    benchmark = Pedantic(clock := ReplayClock())
    clock.show(benchmark, None)
    assert benchmark.disabled
    assert benchmark.rounds_s == []


@pytest.mark.parametrize(
    "options", [(), ("--benchmark-cprofile=cumtime",)], ids=["bare", "cprofile"]
)
def test_pytest_benchmark_records_the_measured_rounds(pytester, monkeypatch, options):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # it turns benchmarks off
    pytester.makepyfile(SHOWN)
    done = pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "--benchmark-json=seen.json", "--benchmark-save-data", *options
    )
    done.assert_outcomes(passed=3)
    seen = json.loads((pytester.path / "seen.json").read_text())["benchmarks"]
    assert [entry["name"] for entry in seen] == ["test_shown[first]", "test_shown[again]"]
    for entry in seen:
        assert entry["stats"]["data"] == pytest.approx([1e-3, 2e-3, 6e-3])
        assert entry["extra_info"] == {"eager_median_s": 5e-3}


def test_with_benchmarks_disabled_the_test_passes_all_the_same(pytester):
    pytester.makepyfile(SHOWN)
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--benchmark-disable")
    done.assert_outcomes(passed=3)
