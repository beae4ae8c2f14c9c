"""``compilegate thresholds``: a budgets file from healthy runs of one machine, or a sentence."""

import dataclasses
import tomllib

import pytest
import torch
from torch.compiler import is_compiling

from compilegate.__main__ import main
from compilegate.calibration import thresholds
from compilegate.judging import budgets_toml
from compilegate.judging.budgets import Machine
from compilegate.layout import SHIPPED_BUDGETS
from compilegate.records.case import Case
from compilegate.records.environment import Device
from compilegate.records.performance import Condition
from compilegate.suites import test_compile_time, test_compile_work, test_memory
from tests.unit.making import (
    CASE_ID,
    make_capture,
    make_compile_time,
    make_environment,
    make_failed_observation,
    make_memory,
    make_observation,
    make_timing,
    make_verdict,
    make_work,
)
from tests.unit.observed import Linear, observation
from tests.unit.runs import write_run

MIB = 2**20
KNOWN_BUG = "gh183605_half_variance-cpu-infer-f32-default-static"
ON_GPU = "tiny-cuda-train-f32-default-static"
H200 = Device(kind="cuda", name="NVIDIA H200", memory_bytes=1)


def with_gpu(cores, **changed):
    (processor,) = make_environment().devices
    devices = (dataclasses.replace(processor, cores=cores), H200)
    return make_environment(devices=devices, **changed)


def timed(speedup, kernels=0.0, **changed):
    timing = dataclasses.replace(make_timing(speedup), **changed)
    if kernels:
        timing = dataclasses.replace(timing, eager_kernels_ns=kernels, compiled_kernels_ns=1.0)
    return timing


def measured(speedup=2.0, peak=100 * MIB, compile_s=4.0, kernels=0.0, **changed):
    """A case that was timed, compiled in an empty cache."""
    fields = {
        "timing": timed(speedup, kernels),
        "memory": make_memory(compiled=peak),
        "compile_time": make_compile_time(compile_s),
        "cold": True,
    }
    return make_observation(**fields | changed)


class Runs:
    """Writes runs of one case each, and has the command make thresholds from them."""

    def __init__(self, folder, capsys):
        self._folder, self._capsys = folder, capsys
        self.words = []

    def add(self, *observations, environment=None, **header):
        number = len(self.words)
        header = {"created": f"2026-01-01T00:00:0{number}+00:00"} | header
        file = self._folder / f"{number}.jsonl"
        environment = environment or make_environment()
        write_run(file, *observations, environment=environment, **header)
        self.words.append(str(file))

    def text(self, *options):
        assert main(["thresholds", *options, *self.words]) == 0
        return self._capsys.readouterr().out

    def entries(self, *options):
        return tomllib.loads(self.text(*options))["budget"]

    def refusal(self, *options):
        assert main(["thresholds", *options, *self.words]) == 2
        shown = self._capsys.readouterr()
        assert not shown.out
        (line,) = shown.err.splitlines()
        return line.removeprefix("compilegate: ")


@pytest.fixture
def runs(tmp_path, capsys):
    return Runs(tmp_path, capsys)


def test_an_entry_names_its_case_and_the_machine(runs):
    runs.add(measured())
    runs.add(measured())
    assert runs.entries() == [
        {
            "case": CASE_ID,
            "hardware": "AMD EPYC 9655",
            "host": "AMD EPYC 9655 (2 cores)",
            "min_speedup": 1.8,
            "max_memory_ratio": 1.1,
            "max_compile_s": 10.0,
            "memory_slack_bytes": 4096,
        }
    ]


TINY = {
    "memory": make_memory(300 * 2**10, 300 * 2**10),
    "compile_time": make_compile_time(1.0),
    "compile_work": make_work(),
}


@pytest.mark.parametrize(
    ("suite", "costly"),
    [
        (test_memory, {"memory": make_memory(300 * 2**10, 390 * 2**10)}),
        (test_compile_time, {"compile_time": make_compile_time(2.6)}),
        (test_compile_work, {"compile_work": make_work(inductor=220_000)}),
    ],
)
def test_thresholds_of_a_tiny_model_are_as_narrow_as_what_is_measured(
    runs, tmp_path, suite, costly
):
    """It needs 0.3 MiB, and compiles in a second. A third more of either is found."""
    for _ in range(2):
        runs.add(measured(**TINY))
    file = tmp_path / "mine.toml"
    file.write_text(runs.text())
    here = Machine("AMD EPYC 9655", "AMD EPYC 9655 (2 cores)")
    shipped = [*SHIPPED_BUDGETS.glob("cpu.toml")]
    budget = budgets_toml.read([file], shipped).budget(Case.parse(CASE_ID), here, "2.15.0")
    assert suite.rule(measured(**TINY), budget).outcome == "passed"
    finding = suite.rule(measured(**TINY | costly), budget)
    assert finding.outcome == "failed", finding


def holding(share):
    """Return a builder of a module whose compiled code holds so much more of its output."""

    def hold(x, y):
        held = y[: int(share * len(y))] * 1.0 if share and is_compiling() else y[:1]
        return y * 1.0 + 0.0 * held.sum()

    return lambda: Linear(hold)


@pytest.mark.long
def test_a_tiny_model_that_holds_a_third_more_fails_its_own_threshold(runs, tmp_path):
    def observed(share):
        inputs = {"inputs": lambda batch: (torch.randn(1000 * batch, 4),)}
        seen = observation(holding(share), "infer", "aot_eager", ("capture", "memory"), **inputs)
        return dataclasses.replace(seen, backend="inductor", capture=make_capture())

    for _ in range(2):
        runs.add(observed(0))
    file = tmp_path / "mine.toml"
    file.write_text(runs.text())
    here = Machine("AMD EPYC 9655", "AMD EPYC 9655 (2 cores)")
    case = Case.parse(observed(0).case)
    budget = budgets_toml.read([file], [*SHIPPED_BUDGETS.glob("cpu.toml")])
    budget = budget.budget(case, here, "2.15.0")
    sound, costly = (test_memory.rule(observed(share), budget) for share in (0, 0.9))
    assert (sound.outcome, costly.outcome) == ("passed", "failed"), (sound, costly)
    assert "peak 362.5 KiB, eager 375.0 KiB" in costly.summary


def test_calls_while_compiling_get_a_margin_of_their_own():
    counted = (600_000, 600_300)  # as far apart as processes are
    assert thresholds.thresholds({"max_compile_calls": counted}) == {"max_compile_calls": 612_153}


def test_the_file_is_a_budget_of_that_machine_alone(runs, tmp_path):
    for _ in range(2):
        runs.add(measured(case=ON_GPU, kernels=1.5), environment=with_gpu(16))
    file = tmp_path / "mine.toml"
    file.write_text(runs.text())
    budgets, case = budgets_toml.read([file]), Case.parse(ON_GPU)
    here = Machine("NVIDIA H200", "AMD EPYC 9655 (16 cores)")
    seen = budgets.budget(case, here, "2.15.0")
    assert (seen.min_speedup, seen.min_kernel_speedup) == (1.8, 1.35)
    for there in (dataclasses.replace(here, host="another"), Machine("NVIDIA H100", here.host)):
        assert budgets.budget(case, there, "2.15.0").min_speedup is None


def test_the_file_shows_the_command_and_what_the_runs_measured(runs):
    runs.add(measured(speedup=2.0))
    runs.add(measured(speedup=2.5))
    text = runs.text()
    assert text.startswith("# Thresholds for AMD EPYC 9655 on AMD EPYC 9655 (2 cores), from 2 ")
    assert f"#     compilegate thresholds {' '.join(runs.words)}" in text
    assert "# speedup 2 to 2.5 in 2 runs; memory 1 in 2 runs; compile seconds 4 in 2 runs" in text
    assert "no threshold" not in text


@pytest.mark.parametrize(
    ("speedups", "expected"),
    [
        ((2.0, 2.0), 1.8),  # a tenth below
        ((1.0, 2.0, 2.0, 2.0), None),  # a spread of a half
        ((1.8, 2.2), 1.2),  # a spread of a fifth, twice
        ((1.98, 2.02, 2.0), 1.8),  # twice their spread is less than a tenth
    ],
)
def test_a_threshold_is_the_median_with_a_margin_for_the_spread(speedups, expected):
    assert thresholds.thresholds({"min_speedup": speedups}).get("min_speedup") == expected


def test_what_must_not_grow_has_its_margin_above():
    found = thresholds.thresholds({"max_memory_ratio": (1.0, 1.2), "max_compile_s": (8.0, 12.0)})
    assert found == {"max_memory_ratio": 1.5, "max_compile_s": 23.0}


@pytest.mark.parametrize(("speedup", "allowed"), [(0.5, 1), (1.1, 1), (1.2, None)])
def test_an_overhead_is_allowed_where_calls_may_be_slower(speedup, allowed):
    found = thresholds.thresholds({"min_speedup": (speedup, speedup)})
    assert found.get("max_call_overhead") == allowed


def test_a_wider_margin_can_be_asked_for(runs):
    runs.add(measured())
    runs.add(measured())
    (entry,) = runs.entries("--margin", "0.25")
    assert (entry["min_speedup"], entry["max_memory_ratio"]) == (1.5, 1.25)
    assert runs.refusal("--margin", "1").startswith("--margin 1: give a share")


HOT = Condition(sm_mhz=900, temperature_c=93, power_w=500.0, throttled=("hw_slowdown",))


@pytest.mark.parametrize(
    "disturbed",
    [{"conditions": (HOT,)}, {"shares_gpu": True}, {"busy": 0.5}],
    ids=["throttled", "shared", "busy"],
)
def test_rounds_on_a_machine_that_was_not_quiet_are_left_out(runs, disturbed):
    runs.add(measured())
    runs.add(measured())
    runs.add(measured(timing=timed(0.5, **disturbed)))
    (entry,) = runs.entries()
    assert entry["min_speedup"] == 1.8


def test_what_two_runs_did_not_measure_has_no_threshold(runs):
    runs.add(measured())
    runs.add(measured(timing=None, cold=False))
    (entry,) = runs.entries()
    keys = {"case", "hardware", "host", "max_memory_ratio", "memory_slack_bytes"}
    assert entry.keys() == keys


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"timing": timed(2.0, busy=9.0)}, "speedup: other processes kept the machine busy in 1"),
        ({"timing": None}, "speedup: no call was timed in 1 of 2 runs"),
        ({"timing": timed(9.0)}, "speedup: the runs differ by half of their median or more"),
        ({"cold": False}, "compile seconds: caches were not empty in 1 of 2 runs"),
    ],
    ids=["busy", "untimed", "spread", "warm"],
)
def test_the_file_says_why_a_threshold_is_missing(runs, changed, reason):
    runs.add(measured())
    runs.add(measured(**changed))
    assert f"\n# no threshold for {reason}" in runs.text()


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([make_failed_observation("crashed")], id="crashed"),
        pytest.param([measured(capture=make_capture(graphs=0))], id="nothing compiled"),
        pytest.param([measured(), make_verdict("failed")], id="wrong numbers"),
        pytest.param([measured(case=KNOWN_BUG)], id="known bug"),
    ],
)
def test_a_run_in_which_nothing_healthy_was_compiled_is_refused(runs, seen):
    runs.add(measured())
    runs.add(*seen)
    assert "1.jsonl: nothing in it was compiled" in runs.refusal()


def test_one_run_is_refused(runs):
    runs.add(measured())
    assert runs.refusal().startswith("one run does not show how far runs differ: give two or more")


def test_the_same_run_twice_is_refused(runs):
    for _ in range(2):
        runs.add(measured(), created="2026-01-01T00:00:00+00:00")
    assert runs.refusal().startswith("the same run was given twice")


@pytest.mark.parametrize(
    ("environment", "header", "difference"),
    [
        (with_gpu(16, versions={"torch": "2.14.1"}), {}, "torch 2.15.0+cpu → 2.14.1"),
        (with_gpu(32), {}, "cpu cores 16 → 32"),
        (with_gpu(16), {"backend": "aot_eager"}, "backend inductor → aot_eager"),
        (make_environment(), {}, "cuda NVIDIA H200 → none"),
    ],
)
def test_runs_of_another_machine_or_environment_are_refused(runs, environment, header, difference):
    runs.add(measured(), environment=with_gpu(16))
    runs.add(measured(), environment=environment, **header)
    refusal = runs.refusal()
    assert "are not of one machine and environment: " in refusal
    assert difference in refusal


def test_runs_without_a_case_in_common_are_refused(runs):
    runs.add(measured())
    runs.add(measured(case=CASE_ID.replace("static", "auto")))
    assert runs.refusal().startswith("no case was compiled and measured in two of these runs")


def test_several_hosts_give_thresholds_for_what_no_host_changes(runs):
    for cores in (16, 32):
        runs.add(measured(case=ON_GPU, kernels=1.5), environment=with_gpu(cores))
    assert runs.entries("--any-host") == [
        {
            "case": ON_GPU,
            "hardware": "NVIDIA H200",
            "min_kernel_speedup": 1.35,
            "max_memory_ratio": 1.1,
        }
    ]


def test_several_processors_are_several_machines_on_cpu(runs):
    runs.add(measured())
    runs.add(measured(), environment=with_gpu(16))
    assert "cpu cores 2 → 16" in runs.refusal("--any-host")


def test_a_run_that_does_not_exist_is_reported(runs, tmp_path):
    runs.words = [str(tmp_path / "none.jsonl")]
    assert "none.jsonl" in runs.refusal()


def test_memory_that_no_compiled_call_needs_gets_no_threshold():
    assert thresholds.thresholds({"max_memory_ratio": (0.0, 0.0)}) == {}
