"""Thresholds that are made of healthy runs, into a budgets file that people may have written in."""

import dataclasses
import tomllib

import pytest

from compilegate.calibration import thresholds
from compilegate.records.performance import Condition
from tests.unit.making import (
    CASE_ID,
    make_capture,
    make_compile_time,
    make_environment,
    make_failed_observation,
    make_memory,
    make_observation,
    make_timing,
)
from tests.unit.runs import write_run

MIB = 2**20


def measured(speedup=2.0, peak=100 * MIB, compile_s=4.0, **changed):
    """A case that was timed, compiled in an empty cache."""
    fields = {
        "timing": make_timing(speedup),
        "memory": make_memory(compiled=peak),
        "compile_time": make_compile_time(compile_s),
        "cold": True,
    }
    return make_observation(**fields | changed)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes the thresholds of some observations, a run each, and returns the entries."""
    file = tmp_path / "mine.toml"

    def apply(*observations, before=""):
        file.write_text(before)
        runs = [
            write_run(tmp_path / f"{number}.jsonl", observation, environment=make_environment())
            for number, observation in enumerate(observations)
        ]
        monkeypatch.setattr("sys.argv", ["thresholds", str(file), *map(str, runs)])
        thresholds.main()
        return tomllib.loads(file.read_text()).get("budget", [])

    return apply


def test_rounds_on_a_throttled_gpu_are_left_out(write):
    hot = Condition(sm_mhz=900, temperature_c=93, power_w=500.0, throttled=("hw_slowdown",))
    held = dataclasses.replace(make_timing(0.5), conditions=(hot,))
    (entry,) = write(measured(speedup=2.0), measured(timing=held))
    assert entry["min_speedup"] == 1.8


def test_thresholds_leave_room_beyond_the_worst_of_all_runs(write):
    (entry,) = write(
        measured(speedup=2.0, peak=80 * MIB, compile_s=4.0),
        measured(speedup=1.51, peak=100 * MIB, compile_s=10.0),
    )
    assert entry == {
        "case": CASE_ID,
        "hardware": "AMD EPYC 9655",
        "min_speedup": 1.35,
        "max_memory_ratio": 1.1,
        "max_compile_s": 25.0,
    }


@pytest.mark.parametrize(("speedup", "overhead"), [(0.5, 20), (1.1, 20), (1.2, None)])
def test_an_overhead_is_allowed_where_compiled_code_may_be_slower(write, speedup, overhead):
    (entry,) = write(measured(speedup=speedup))
    assert entry.get("max_call_overhead_us") == overhead


def test_what_was_not_measured_has_no_threshold(write):
    (entry,) = write(measured(timing=None, memory=None))
    assert entry.keys() == {"case", "hardware", "max_compile_s"}
    (entry,) = write(measured(timing=None, cold=False))
    assert entry.keys() == {"case", "hardware", "max_memory_ratio"}


@pytest.mark.parametrize(
    "observation",
    [
        pytest.param(make_failed_observation("crashed"), id="crashed"),
        pytest.param(measured(capture=make_capture(graphs=0)), id="nothing compiled"),
        pytest.param(
            measured(case="gh183605_half_variance-cpu-infer-f32-default-static"), id="known bug"
        ),
    ],
)
def test_a_case_that_is_not_healthy_has_no_threshold(write, observation):
    (entry,) = write(measured(), observation)
    assert entry["case"] == CASE_ID
    with pytest.raises(SystemExit):
        write(observation)


def test_other_entries_and_other_keys_stay(write):
    before = f"""# By hand.
[[budget]]
model = "mlp"
recompiles = 1

[[budget]]
case = "{CASE_ID}"
hardware = "AMD EPYC 9655"
min_speedup = 9.0
max_energy_ratio = 1.2
"""
    first, second = write(measured(), before=before)
    assert first == {"model": "mlp", "recompiles": 1}
    assert (second["min_speedup"], second["max_energy_ratio"]) == (1.8, 1.2)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("mine.toml", "none.jsonl"), "none.jsonl"),
        (("malformed.toml", "healthy.jsonl"), "malformed.toml:1: malformed TOML"),
        (("healthy.jsonl/mine.toml", "healthy.jsonl"), "cannot write the budgets file"),
    ],
)
def test_a_file_that_cannot_be_read_or_written_is_reported(
    tmp_path, monkeypatch, capsys, names, expected
):
    write_run(tmp_path / "healthy.jsonl", measured(), environment=make_environment())
    (tmp_path / "malformed.toml").write_text("[[budget]\n")
    monkeypatch.setattr("sys.argv", ["thresholds", *(str(tmp_path / name) for name in names)])
    with pytest.raises(SystemExit):
        thresholds.main()
    assert expected in capsys.readouterr().err
