"""Every rule: a healthy observation passes, and nothing is judged without a threshold."""

import importlib

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.rules import rules
from compilegate.records.performance import Energy
from compilegate.records.practice import PRACTICES, Practice, Step
from compilegate.suites import (
    test_compile_time,
    test_compile_work,
    test_cuda_graphs,
    test_energy,
    test_forward,
    test_gradients,
    test_graph_breaks,
    test_memory,
    test_randomness,
    test_recompiles,
    test_side_effects,
    test_speedup,
)
from tests.unit.making import (
    make_capture,
    make_checked,
    make_error,
    make_memory,
    make_observation,
    make_timing,
    make_work,
)
from tests.unit.rules.common import STRICT

SUITES = {
    "forward": test_forward,
    "gradients": test_gradients,
    "side_effects": test_side_effects,
    "randomness": test_randomness,
    "graph_breaks": test_graph_breaks,
    "recompiles": test_recompiles,
    "speedup": test_speedup,
    "compile_time": test_compile_time,
    "compile_work": test_compile_work,
    "memory": test_memory,
    "cuda_graphs": test_cuda_graphs,
    "energy": test_energy,
    **{name: importlib.import_module(f"compilegate.suites.test_{name}") for name in PRACTICES},
}
STEP = Step(name="call", outputs=make_checked(make_error("output")))
#: Of a metric whose every score is equal.
EQUAL = {
    "samples": 9.0,
    "eager_score": 1.0,
    **dict.fromkeys(("worse_samples", "better_samples", "change_low_score"), 0.0),
    "change_high_score": 0.0,
}
HEALTHY = make_observation(
    cold=True,
    timing=make_timing(2.0),
    memory=make_memory(),
    energy=Energy(eager_j=1.0, compiled_j=0.8),
    capture=make_capture(cudagraphs=2),
    compile_work=make_work(),
    practices={name: Practice(steps=(STEP,), graphs=1, figures=EQUAL) for name in PRACTICES},
)


def test_each_aspect_has_one_rule():
    assert {*SUITES} == {aspect.name for aspect, _ in rules()}


@pytest.mark.parametrize("aspect", SUITES)
def test_a_healthy_observation_passes(aspect):
    finding = SUITES[aspect].rule(HEALTHY, STRICT)
    assert finding.outcome == "passed"
    assert finding.summary
    assert not finding.proposal


@pytest.mark.parametrize(
    ("aspect", "key"),
    [
        ("speedup", "min_speedup"),
        ("compile_time", "max_compile_s"),
        ("memory", "max_memory_ratio"),
        ("compile_work", "max_compile_calls"),
    ],
)
def test_without_a_threshold_nothing_is_judged_and_the_reason_is_shown(aspect, key):
    finding = SUITES[aspect].rule(HEALTHY, Budget())
    assert finding.outcome == "skipped"
    assert "not judged, no threshold: " in finding.summary
    finding = SUITES[aspect].rule(HEALTHY, Budget(elsewhere={key: "NVIDIA H200"}))
    assert finding.outcome == "skipped"
    assert "not judged, the threshold is for NVIDIA H200: " in finding.summary
