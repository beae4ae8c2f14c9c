"""``--benchmark-json FILE``: pytest-benchmark shows the rounds that the child measured."""

import json

import pytest

from tests.integration.conftest import MATVEC, SPEEDUP


def test_the_rounds_are_the_childs(compilegate, tmp_path):
    file = tmp_path / "benchmark.json"
    session = compilegate(SPEEDUP, "--cases", MATVEC, "--benchmark-json", str(file), benchmark=True)
    timing = session.run().observations[MATVEC].timing
    (benchmark,) = json.loads(file.read_text())["benchmarks"]
    assert benchmark["name"] == f"test_speedup_is_within_budget[{MATVEC}]"
    assert benchmark["stats"]["rounds"] == len(timing.compiled_ns)
    assert benchmark["stats"]["min"] == pytest.approx(min(timing.compiled_ns) / 1e9, rel=1e-3)
    assert benchmark["extra_info"]["eager_median_s"] > 0
    assert "benchmark: 1 tests" in session.output


def test_a_case_that_did_not_run_has_no_benchmark_and_no_warning(compilegate, stored, tmp_path):
    stored("compiles_not")
    file = tmp_path / "benchmark.json"
    session = compilegate(
        SPEEDUP, "--replay", "stored", "--benchmark-json", str(file), benchmark=True
    )
    assert session.status == 1
    assert session.counts == {"failed": 1}
    assert "Benchmark fixture was not used" not in session.output
