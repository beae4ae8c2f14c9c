"""The replay clock: pytest-benchmark shows exactly the rounds that were measured."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from compilegate.layout import PACKAGE
from compilegate.records.case import Case
from compilegate.records.environment import Device
from compilegate.session.replay_clock import ReplayClock, describe_machine, pytest_configure
from tests.unit.making import make_environment, make_timing

pytest_plugins = ["pytester"]

SHOWN = """
import pytest

from compilegate.records.case import Case
from compilegate.records.performance import Timing
from compilegate.session.replay_clock import ReplayClock

CLOCK = ReplayClock()
CASE = Case.parse("tiny-cpu-infer-f32-default-static")
EAGER = (4e6, 9e6, 5e6, 4e6, 4e6, 4e6, 4e6, 4e6)
COMPILED = (1e6, 2e6, 6e6, 2e6, 2e6, 2e6, 2e6, 2e6)
TIMING = Timing(eager_ns=EAGER, compiled_ns=COMPILED, iterations=7)

@pytest.mark.parametrize("timing", [TIMING, None, TIMING], ids=["first", "none", "again"])
@pytest.mark.benchmark(timer=CLOCK)
def test_shown(benchmark, timing):
    CLOCK.show(benchmark, CASE, timing)
"""
CASE = Case.parse("tiny-cpu-infer-f32-default-static")


class Pedantic:
    """The part of the ``benchmark`` fixture that the clock uses. It can make extra calls."""

    def __init__(self, timer, extra_calls=0):
        self.timer, self.extra_calls = timer, extra_calls
        self.extra_info, self.rounds_s, self.disabled = {}, {}, False
        self.fullname = "test_shown"

    def pedantic(self, function, rounds):
        if self.disabled:
            function()
            return
        for _ in range(rounds):
            start = self.timer()
            function()
            self.rounds_s.setdefault(self.name, []).append(self.timer() - start)
        for _ in range(self.extra_calls):
            function()


def test_the_clock_does_not_move_on_its_own():
    clock = ReplayClock()
    assert clock() == clock() == 0.0


def test_the_rounds_of_both_sides_are_played_back_in_order():
    timing = make_timing(2.0, rounds=8, spread=0.5)
    benchmark = Pedantic(clock := ReplayClock())
    clock.show(benchmark, CASE, timing)
    assert list(benchmark.rounds_s) == ["eager", "compiled"]
    assert benchmark.rounds_s["eager"] == pytest.approx([ns / 1e9 for ns in timing.eager_ns])
    assert benchmark.rounds_s["compiled"] == pytest.approx([ns / 1e9 for ns in timing.compiled_ns])
    assert (benchmark.group, benchmark.params["model"]) == (CASE.id, "tiny")
    info = benchmark.extra_info
    assert info["speedup_low"] <= info["speedup"] <= info["speedup_high"]


def test_calls_after_the_last_round_take_no_time():
    benchmark = Pedantic(clock := ReplayClock(), extra_calls=2)
    clock.show(benchmark, CASE, make_timing(rounds=8))
    assert clock() == pytest.approx(sum(map(sum, benchmark.rounds_s.values())))


def test_one_clock_serves_several_cases():
    clock = ReplayClock()
    for speedup in (1.0, 4.0):
        benchmark = Pedantic(clock)
        clock.show(benchmark, CASE, make_timing(speedup, rounds=8))
        assert benchmark.rounds_s["compiled"] == pytest.approx([1e-3 / speedup] * 8)


def test_a_case_without_timing_adds_no_row():
    benchmark = Pedantic(clock := ReplayClock())
    clock.show(benchmark, CASE, None)
    assert benchmark.disabled
    assert benchmark.rounds_s == {}


@pytest.mark.parametrize(
    "options", [(), ("--benchmark-cprofile=cumtime",)], ids=["bare", "cprofile"]
)
def test_pytest_benchmark_records_the_measured_rounds(pytester, monkeypatch, options):
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # it disables benchmarks
    pytester.makepyfile(SHOWN)
    done = pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "--benchmark-json=seen.json", "--benchmark-save-data", *options
    )
    done.assert_outcomes(passed=3)
    seen = json.loads((pytester.path / "seen.json").read_text())["benchmarks"]
    assert [entry["name"] for entry in seen] == ["eager", "compiled"] * 2
    for eager, compiled in zip(seen[::2], seen[1::2], strict=True):
        assert eager["stats"]["data"][:3] == pytest.approx([4e-3, 9e-3, 5e-3])
        assert compiled["stats"]["data"][:3] == pytest.approx([1e-3, 2e-3, 6e-3])
        assert eager["group"] == compiled["group"] == CASE.id
        assert "speedup" in compiled["extra_info"]


def test_the_record_has_the_machine_that_observed():
    gpu = Device(kind="cuda", name="NVIDIA H200", memory_bytes=1, driver="570.1")
    environment = make_environment(cuda="13.0")
    machine = describe_machine(replace(environment, devices=(*environment.devices, gpu)))
    assert machine == {
        "torch": "2.15.0+cpu",
        "python": "3.12.1",
        "CUDA": "13.0",
        "GPU": "NVIDIA H200",
        "driver": "570.1",
        "processor": "AMD EPYC 9655",
    }


def test_the_test_passes_when_benchmarks_are_disabled(pytester):
    pytester.makepyfile(SHOWN)
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--benchmark-disable")
    done.assert_outcomes(passed=3)


class Config:
    """As much of pytest's configuration as the hook reads, with pytest-benchmark's defaults."""

    def __init__(self, **given):
        defaults = {"benchmark_sort": "min", "benchmark_group_by": "group"}
        defaults |= {"benchmark_name": "normal", "benchmark_histogram": [], "pyargs": False}
        self.option = SimpleNamespace(**{**defaults, **given})
        self.args = ["suites"]
        self.invocation_params = SimpleNamespace(dir=PACKAGE.parent)
        self.pluginmanager = SimpleNamespace(hasplugin=lambda name: True)

    def getoption(self, name, default=None):
        return getattr(self.option, name, default)


@pytest.mark.parametrize(
    ("given", "quiet"),
    [
        ({}, True),
        ({"dist": "load"}, True),
        ({"benchmark_columns": ["min"]}, False),
        ({"benchmark_sort": "name"}, False),
        ({"benchmark_json": "file"}, False),
        ({"benchmark_only": True}, False),
    ],
)
def test_tables_are_shown_to_those_who_use_pytest_benchmark(given, quiet):
    config = Config(**given)
    pytest_configure(config)
    assert config.getoption("benchmark_quiet", False) is quiet
    assert config.option.benchmark_columns == given.get(
        "benchmark_columns", ["median", "iqr", "rounds"]
    )


@pytest.mark.parametrize(("is_worker", "disabled"), [(True, True), (False, False)])
def test_a_worker_does_not_warn_that_nothing_is_measured(is_worker, disabled):
    config = Config(dist="no")
    if is_worker:
        config.workerinput = {"workerid": "gw0"}
    pytest_configure(config)
    assert config.getoption("benchmark_disable", False) is disabled
