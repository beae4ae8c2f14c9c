"""The shipped thresholds: any healthy machine passes, and what no machine explains fails."""

import dataclasses

import pytest

from compilegate.judging import budgets_toml
from compilegate.judging.budgets import Machine
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.records.case import Case
from compilegate.suites import test_memory, test_speedup
from tests.unit.making import make_memory, make_observation, make_timing

SHIPPED = budgets_toml.read(sorted(SHIPPED_BUDGETS.glob("*.toml")))
MACHINES = {
    "cpu": Machine("AMD EPYC", "AMD EPYC (2 cores)"),
    "cuda": Machine("NVIDIA H200", "Intel(R) Xeon(R) Processor (16 cores)"),
}
MIB = 2**20


def budget_of(case_id):
    case = Case.parse(case_id)
    return SHIPPED.budget(case, MACHINES[case.device], "2.15.0")


def judged(case_id, speedup, eager_us, *, empty_us=20.0, kernels_us=(0.0, 0.0), spread=0.0):
    timing = make_timing(speedup, eager_ns=eager_us * 1e3, spread=spread)
    eager_ns, compiled_ns = (1e3 * value for value in kernels_us)
    seen = dataclasses.replace(
        timing,
        empty_call_ns=empty_us * 1e3,
        eager_kernels_ns=eager_ns,
        compiled_kernels_ns=compiled_ns,
    )
    return test_speedup.rule(make_observation(timing=seen), budget_of(case_id)).outcome


def remembered(case_id, ratio):
    seen = make_memory(eager=500 * MIB, compiled=int(500 * ratio * MIB))
    return test_memory.rule(make_observation(memory=seen), budget_of(case_id)).outcome


TRAINING = "conv_pool_linear-cuda-train-f32-default-auto"


@pytest.mark.parametrize(
    ("case", "speedup", "eager_us"),
    [
        ("conv_pool_linear-cpu-infer-bf16-default-dynamic", 0.92, 900),
        ("conv_pool_linear-cpu-infer-bf16-default-dynamic", 0.64, 900),
        ("conv_pool_linear-cpu-train-f32-default-auto", 0.53, 900),
        ("gpt2-cpu-infer-bf16-default-marked", 1.22, 90_000),
        ("matvec-cpu-infer-f32-default-static", 0.54, 60),
    ],
)
def test_what_healthy_processors_showed_passes(case, speedup, eager_us):
    assert judged(case, speedup, eager_us, spread=0.04) == "passed"


def test_a_launch_bound_training_step_passes_on_a_slow_host():
    """On 16 cores it took 0.65 of eager's pace, although its kernels are quicker than eager's."""
    quick = {"kernels_us": (300, 220), "empty_us": 120}
    assert judged(TRAINING, 0.65, 600, **quick) == "passed"
    assert judged(TRAINING, 0.5, 600, **quick) == "passed"  # 600 µs are five empty calls


@pytest.mark.parametrize("case", [TRAINING, "conv_pool_linear-cpu-infer-bf16-default-dynamic"])
def test_a_call_that_is_slower_by_far_more_than_the_machines_overhead_fails(case):
    assert judged(case, 0.4, 600, kernels_us=(300, 220)) == "failed"  # 900 µs are 45 empty calls


def test_kernels_that_take_twice_eagers_time_fail_though_the_host_hides_them():
    assert judged(TRAINING, 0.9, 2000, kernels_us=(300, 660)) == "failed"
    assert judged(TRAINING, 0.9, 2000, kernels_us=(300, 390)) == "passed"


def test_a_peak_that_varies_from_session_to_session_passes():
    """One session measured 1.39, and others less than 1.3."""
    assert remembered("resnet18-cuda-infer-f32-default-static", 1.39) == "passed"
    assert remembered("resnet18-cuda-infer-f32-default-static", 2.0) == "failed"


def test_no_shipped_threshold_depends_on_a_host():
    assert not [entry.where for entry in SHIPPED.entries if entry.machine.host]
    named = [entry for entry in SHIPPED.entries if entry.machine.hardware]
    assert named
    for entry in named:
        assert entry.values.keys() <= {"min_kernel_speedup", "max_memory_ratio"}, entry.where
