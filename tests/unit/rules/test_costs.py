"""Rules of speed, energy and compile time: below, above, or inconclusive."""

import dataclasses

import pytest

from compilegate.judging.budget import Budget
from compilegate.records.performance import Condition, Energy
from compilegate.suites import test_compile_time, test_energy, test_speedup
from tests.unit.making import (
    make_compile_time,
    make_observation,
    make_timing,
)
from tests.unit.rules.common import STRICT, assert_proposal_helps

# Speed.


def timed(speedup, **changed):
    return make_observation(timing=make_timing(speedup, **changed))


@pytest.mark.parametrize(
    ("speedup", "spread", "wanted", "outcome"),
    [
        (2.0, 0.0, 1.5, "passed"),
        (1.5, 0.0, 1.5001, "failed"),
        (1.0, 0.0, 1.5, "failed"),
        (1.5, 0.1, 1.5, "inconclusive"),
        (0.5, 0.1, 0.8, "failed"),
        (0.9, 0.01, 0.8, "passed"),
    ],
)
def test_speedup_is_judged_by_its_interval(speedup, spread, wanted, outcome):
    finding = test_speedup.rule(timed(speedup, spread=spread), Budget(min_speedup=wanted))
    assert finding.outcome == outcome
    assert f"at least {wanted:g}× wanted" in finding.summary


def test_a_slow_case_reports_its_speedup_and_proposes_less_than_the_interval():
    finding = test_speedup.rule(timed(1.0), Budget(min_speedup=1.5))
    assert finding.summary == "1.00× [1.00, 1.00] over 30 rounds, at least 1.5× wanted"
    assert finding.proposal == {"min_speedup": 0.9}
    assert_proposal_helps(test_speedup.rule, timed(1.0), Budget(min_speedup=1.5))
    assert_proposal_helps(test_speedup.rule, timed(0.37, spread=0.2), Budget(min_speedup=1.5))


def test_inconclusive_proposes_nothing():
    finding = test_speedup.rule(timed(1.5, spread=0.1), Budget(min_speedup=1.5))
    assert "the interval straddles it" in finding.summary
    assert not finding.proposal


def test_too_slow_on_a_busy_machine_is_inconclusive():
    busy = timed(1.0)
    busy = dataclasses.replace(busy, timing=dataclasses.replace(busy.timing, busy=0.5))
    finding = test_speedup.rule(busy, Budget(min_speedup=1.5))
    assert finding.outcome == "inconclusive"
    assert "other processes took 50% of the processor" in finding.summary
    assert test_speedup.rule(busy, Budget(min_speedup=0.9)).outcome == "passed"


def launch_bound(speedup, eager_us=100.0, empty_us=20.0, **kernels_us):
    """A case that measures the host, on a machine whose empty compiled call takes this long."""
    kernels = {f"{side}_kernels_ns": value * 1e3 for side, value in kernels_us.items()}
    timing = make_timing(speedup, eager_ns=eager_us * 1e3)
    timing = dataclasses.replace(timing, empty_call_ns=empty_us * 1e3, **kernels)
    return make_observation(timing=timing)


def test_an_overhead_of_some_empty_calls_is_allowed_whatever_the_ratio():
    slower_by_100_us = launch_bound(0.5, empty_us=20)
    assert test_speedup.rule(slower_by_100_us, Budget(min_speedup=0.8)).outcome == "failed"
    allowing = Budget(min_speedup=0.8, max_call_overhead=5)
    finding = test_speedup.rule(slower_by_100_us, allowing)
    assert finding.outcome == "passed"
    assert finding.summary.endswith(
        "slower by 100 µs, 5 empty compiled calls (20 µs each) are allowed"
    )
    assert "empty compiled call: 20 µs" in finding.details


def test_the_same_overhead_fails_on_a_machine_with_quicker_calls():
    finding = test_speedup.rule(
        launch_bound(0.5, empty_us=19), Budget(min_speedup=0.8, max_call_overhead=5)
    )
    assert finding.outcome == "failed"
    assert "slower by 100 µs, 5 empty compiled calls (19 µs each)" in finding.summary


def test_allowed_overhead_does_not_excuse_a_missing_speedup():
    budget = Budget(min_speedup=1.1, max_call_overhead=50)
    assert test_speedup.rule(launch_bound(0.9), budget).outcome == "failed"


def test_allowed_overhead_does_not_excuse_a_slow_model():
    budget = Budget(min_speedup=0.8, max_call_overhead=5)
    assert test_speedup.rule(launch_bound(0.5, eager_us=10e3), budget).outcome == "failed"


def test_rounds_that_scatter_are_judged_by_the_quickest():
    finding = test_speedup.rule(
        timed(1.0, spread=0.5), Budget(min_speedup=0.8, max_call_overhead=5)
    )
    assert finding.outcome == "passed"
    assert finding.summary.endswith("; no slower in the quickest rounds")


@pytest.mark.parametrize(("eager_us", "outcome"), [(400.0, "passed"), (600.0, "failed")])
def test_a_run_that_timed_no_empty_call_is_given_a_slow_one(eager_us, outcome):
    old = launch_bound(0.5, eager_us=eager_us, empty_us=0)
    finding = test_speedup.rule(old, Budget(min_speedup=0.8, max_call_overhead=5))
    assert finding.outcome == outcome
    assert "(assumed, because the run timed none: 100 µs each) are allowed" in finding.summary


# Kernels.

KERNELS = Budget(min_speedup=0.5, min_kernel_speedup=0.5, kernel_slack_us=50)


def kernels(eager_us, compiled_us, budget=KERNELS, speedup=1.0):
    """The finding on a call of 2 ms whose kernels take this long."""
    seen = launch_bound(speedup, eager_us=2000, eager=eager_us, compiled=compiled_us)
    return test_speedup.rule(seen, budget)


def test_slow_kernels_fail_though_the_host_hides_them():
    finding = kernels(300, 700)
    assert finding.outcome == "failed"
    assert finding.summary.endswith("kernels 0.43×, at least 0.5× wanted, slower by 400 µs")
    assert finding.proposal == {"min_kernel_speedup": 0.38}
    assert kernels(300, 590).outcome == "passed"
    better = dataclasses.replace(KERNELS, min_kernel_speedup=0.38)
    assert kernels(300, 700, better).outcome == "passed"


def test_a_few_microseconds_of_kernels_pass_whatever_the_ratio():
    finding = kernels(13, 41)
    assert finding.outcome == "passed"
    assert finding.summary.endswith("slower by 28 µs, within the slack of 50 µs")
    assert kernels(13, 64).outcome == "failed"


def test_quick_kernels_do_not_excuse_a_slow_call():
    finding = kernels(300, 200, speedup=0.4)
    assert finding.outcome == "failed"
    assert "kernels 1.50×" in finding.summary
    assert finding.proposal == {"min_speedup": 0.36}


@pytest.mark.parametrize("seen", [(0, 700), (300, 0), (0, 0)])
def test_kernels_that_were_not_profiled_are_not_judged(seen):
    finding = kernels(*seen)
    assert finding.outcome == "passed"
    assert "kernels" not in finding.summary


def test_kernels_have_a_threshold_of_their_own():
    only = Budget(min_kernel_speedup=0.5)
    assert kernels(300, 700, only).outcome == "failed"
    assert kernels(300, 200, only).outcome == "passed"
    assert "not judged, no threshold" in kernels(300, 200, only).summary


def test_slow_kernels_of_a_throttled_gpu_are_no_verdict():
    hot = Condition(sm_mhz=900, temperature_c=93, power_w=500.0, throttled=("hw_slowdown",))
    seen = launch_bound(1.0, eager=300, compiled=700)
    timing = dataclasses.replace(seen.timing, conditions=(hot,))
    for budget in (KERNELS, Budget(min_kernel_speedup=0.5)):
        finding = test_speedup.rule(make_observation(timing=timing), budget)
        assert finding.outcome == "inconclusive"
        assert finding.summary.count("the GPU throttled") == 1


def under(*throttled):
    """Rounds that are fast enough, on a GPU of which NVML says this."""
    conditions = (
        Condition(sm_mhz=1980, temperature_c=40, power_w=300.0),
        Condition(sm_mhz=1200, temperature_c=88, power_w=650.0, throttled=throttled),
    )
    timing = dataclasses.replace(
        make_timing(2.0), clock="events", conditions=conditions, items=32, compiled_kernels_ns=4e5
    )
    return test_speedup.rule(make_observation(timing=timing), STRICT)


def test_a_throttled_measurement_is_inconclusive():
    finding = under("hw_thermal_slowdown", "sw_power_cap")
    assert finding.outcome == "inconclusive"
    assert finding.summary.endswith("the GPU throttled: hw_thermal_slowdown")


def test_a_measurement_on_a_shared_gpu_is_inconclusive():
    timing = dataclasses.replace(make_timing(2.0), shares_gpu=True)
    finding = test_speedup.rule(make_observation(timing=timing), STRICT)
    assert finding.outcome == "inconclusive"
    assert finding.summary.endswith("other cases were observed on the same GPU")


def test_a_gpu_that_draws_all_its_power_is_at_work():
    assert under("sw_power_cap").outcome == under().outcome == "passed"


def test_a_timing_is_described_side_by_side():
    assert under().details == (
        "eager: median 1 ms, p95 1 ms, 3.2e+04 items/s",
        "compiled: median 0.5 ms, p95 0.5 ms, 6.4e+04 items/s, kernels 0.4 ms",
        "GPU at 1200 to 1980 MHz, up to 88 °C, up to 650 W",
    )


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), "NVML does not report whether the GPU throttled"),
        ((Condition(sm_mhz=900, temperature_c=None, power_w=None),), "GPU at 900 MHz"),
        (
            (Condition(sm_mhz=None, temperature_c=None, power_w=None),),
            "GPU of unknown clock, temperature and power",
        ),
    ],
)
def test_a_timing_names_what_nvml_does_not_report(conditions, expected):
    timing = dataclasses.replace(make_timing(2.0), clock="events", conditions=conditions)
    finding = test_speedup.rule(make_observation(timing=timing), STRICT)
    assert (finding.outcome, finding.details[-1]) == ("passed", expected)


# Energy.


def test_energy_over_eagers_fails():
    thirsty = make_observation(energy=Energy(eager_j=0.5, compiled_j=0.6))
    finding = test_energy.rule(thirsty, STRICT)
    assert finding.summary == "0.6 J a call, eager 0.5 J (1.20×), at most 1.1× allowed"
    assert finding.outcome == "failed"
    assert_proposal_helps(test_energy.rule, thirsty, STRICT)


def test_a_little_energy_may_be_wasted_whatever_the_ratio():
    thirsty = make_observation(energy=Energy(eager_j=0.01, compiled_j=0.05))
    allowing = Budget(max_energy_ratio=1.1, energy_slack_j=0.04)
    finding = test_energy.rule(thirsty, allowing)
    assert finding.outcome == "passed"
    assert finding.summary.endswith("at most 1.1× allowed, within the slack of 0.04 J")
    assert test_energy.rule(thirsty, Budget(max_energy_ratio=1.1)).outcome == "failed"


def test_energy_that_nvml_does_not_report_is_unavailable():
    finding = test_energy.rule(make_observation(energy=Energy(unavailable="NVML: …")), STRICT)
    assert (finding.outcome, finding.summary) == ("skipped", "unavailable: NVML: …")


# Compile time and memory.


def test_a_slow_compile_on_a_busy_machine_is_inconclusive():
    slow = dataclasses.replace(make_compile_time(90.0), busy=0.5)
    finding = test_compile_time.rule(make_observation(cold=True, compile_time=slow), STRICT)
    assert finding.outcome == "inconclusive"
    assert finding.summary.endswith("other processes took 50% of the processor")
    quick = dataclasses.replace(slow, total_s=50.0)
    finding = test_compile_time.rule(make_observation(cold=True, compile_time=quick), STRICT)
    assert finding.outcome == "passed"


def test_a_warm_compile_time_is_not_judged():
    observation = make_observation(cold=False, compile_time=make_compile_time(1000.0))
    finding = test_compile_time.rule(observation, STRICT)
    assert finding.outcome == "skipped"
    assert "not judged, compiled with a warm cache: 1000.0 s (dynamo 1.0" in finding.summary


def test_a_cold_compile_time_over_budget_fails():
    observation = make_observation(cold=True, compile_time=make_compile_time(90.0))
    finding = test_compile_time.rule(observation, STRICT)
    assert finding.outcome == "failed"
    assert finding.summary.startswith("90.0 s (dynamo 1.0, aot 1.0, inductor 1.0, codegen 1.0)")
    assert finding.summary.endswith("at most 60 s allowed")
    assert finding.proposal == {"max_compile_s": 135.0}
    assert_proposal_helps(test_compile_time.rule, observation, STRICT)
