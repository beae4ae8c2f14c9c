"""``--benchmark-json FILE``: pytest-benchmark shows the rounds that the child measured."""

import json

import pytest

from tests.integration.conftest import MATVEC, SPEEDUP


def test_the_rounds_are_the_childs(compilegate, tmp_path):
    file = tmp_path / "benchmark.json"
    session = compilegate(SPEEDUP, "--cases", MATVEC, "--benchmark-json", str(file), benchmark=True)
    timing = session.run().observations[MATVEC].timing
    eager, benchmark = json.loads(file.read_text())["benchmarks"]
    assert (eager["name"], benchmark["name"]) == ("eager", "compiled")
    assert eager["group"] == benchmark["group"] == MATVEC
    assert eager["stats"]["min"] == pytest.approx(min(timing.eager_ns) / 1e9, rel=1e-3)
    assert benchmark["stats"]["rounds"] == len(timing.compiled_ns)
    assert benchmark["stats"]["min"] == pytest.approx(min(timing.compiled_ns) / 1e9, rel=1e-3)
    assert benchmark["extra_info"]["speedup"] > 0
    assert f"benchmark '{MATVEC}': 2 tests" in session.output
    machine = json.loads(file.read_text())["machine_info"]["compilegate"]
    assert machine["torch"] == session.run().header.environment.versions["torch"]


def test_without_an_option_of_pytest_benchmark_there_is_no_table(compilegate, stored):
    stored("uncompilable", "sound")
    session = compilegate(SPEEDUP, "--replay", "stored", benchmark=True)
    assert "speedup" in session.output
    assert "benchmark '" not in session.output
    assert "Legend" not in session.output


def test_workers_are_refused_because_the_file_would_be_empty(compilegate, tmp_path):
    file = str(tmp_path / "benchmark.json")
    session = compilegate(
        SPEEDUP, "--cases", MATVEC, "--benchmark-json", file, "-n", "2", benchmark=True
    )
    assert session.status == 4
    assert "--benchmark-json would write no benchmark with -n" in session.output
    assert "leave -n out" in session.output


def test_a_case_that_did_not_run_has_no_benchmark_and_no_warning(compilegate, stored, tmp_path):
    stored("uncompilable")
    file = tmp_path / "benchmark.json"
    session = compilegate(
        SPEEDUP, "--replay", "stored", "--benchmark-json", str(file), benchmark=True
    )
    assert session.status == 1
    assert session.counts == {"failed": 1}
    assert "Benchmark fixture was not used" not in session.output
