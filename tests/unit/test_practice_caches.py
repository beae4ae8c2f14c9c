"""The practice ``caches``: how its steps and figures are judged, and what its folders are for."""

from concurrent.futures import Future
from dataclasses import replace

import pytest
import torch
import torch._dynamo.utils as dynamo

from compilegate.judging.budget import Budget
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices import caches
from compilegate.observe.practices.bench import Bench, StepFacts
from compilegate.observe.practices.cache_folders import (
    note_found,
    note_not_found,
    with_empty_kernels,
    with_truncated_graphs,
)
from compilegate.observe.practices.fresh_process import FreshProcessError, dataclasses_in
from compilegate.records.call import Decision, Pooled
from compilegate.records.case import Case
from compilegate.records.practice import Practice, Step
from compilegate.records.request import Request
from compilegate.suites.test_caches import rule
from compilegate.zoo import registry
from tests.unit.making import (
    make_checked,
    make_difference,
    make_error,
    make_observation,
    make_timing,
)
from tests.unit.rules.common import assert_proposal_helps

CASE = Case.parse("matvec-cpu-infer-f32-default-static")
STEP = Step(name="compile with an empty cache", outputs=make_checked(make_error("output")))
FIGURES = {
    "cold_s": 7.0,
    "cold_busy_share": 0.0,
    "warm_s": 2.0,
    "warm_busy_share": 0.0,
    "artifacts_s": 3.0,
    "empty_kernels_raise": 1.0,
}


def practised(speedup=2.0, spread=0.0, **figures):
    practice = Practice(steps=(STEP,), graphs=1, figures=FIGURES | figures)
    return make_observation(
        practices={"caches": practice},
        timing=make_timing(speedup, eager_ns=2e6, spread=spread),
        wants=("capture", "time", "caches"),
    )


def test_figures_are_shown_and_not_judged_without_a_budget():
    finding = rule(practised(warm_s=6.0), Budget())
    assert finding.outcome == "passed"
    assert "7.00 s of compiling, 6.00 s with a filled cache (1.2×)" in finding.summary
    assert "3.00 s with loaded artifacts" in finding.summary
    assert "an empty kernel file raises" in finding.summary


@pytest.mark.parametrize(
    ("speedup", "spread", "text"),
    [
        (2.0, 0.0, "pays off after 7,000 calls"),
        (0.5, 0.0, "never pays off"),
        (1.0, 0.0, "never pays off"),
        (1.0, 0.1, "whether it pays off is not clear"),
    ],
)
def test_the_calls_until_compiling_pays_off_are_shown(speedup, spread, text):
    assert text in rule(practised(speedup, spread), Budget()).summary


@pytest.mark.parametrize(
    ("wanted", "figures", "outcome"),
    [
        (3.5, {}, "passed"),
        (3.6, {}, "failed"),
        (3.6, {"warm_busy_share": 0.5}, "inconclusive"),
        (3.6, {"cold_busy_share": 0.5}, "inconclusive"),
        (3.6, {"warm_s": 0.0}, "inconclusive"),
    ],
)
def test_a_budget_judges_the_time_that_a_cache_saves(wanted, figures, outcome):
    assert rule(practised(**figures), Budget(min_cache_speedup=wanted)).outcome == outcome


def test_the_proposed_budget_passes():
    assert_proposal_helps(rule, practised(), Budget(min_cache_speedup=4.0))


@pytest.fixture
def counters():
    """What Inductor has counted since the last reset; empty again after the test."""
    dynamo.counters.clear()
    yield dynamo.counters["inductor"]
    dynamo.counters.clear()


@pytest.mark.parametrize(
    ("counted", "is_found"),
    [
        ({"fxgraph_cache_hit": 2}, True),
        ({"fxgraph_cache_hit": 1, "fxgraph_cache_miss": 1}, False),
        ({"fxgraph_cache_hit": 1, "fxgraph_cache_bypass": 1}, False),
        ({"fxgraph_cache_hit": 2, "fxgraph_cache_miss": 1}, False),
        ({}, False),
    ],
)
def test_each_graph_must_be_found(counters, counted, is_found):
    counters.update(counted)
    facts = StepFacts()
    note_found(facts, 2)
    assert bool(facts.state.differences) is not is_found


def test_a_miss_of_aot_autograd_is_noted(counters):
    counters.update({"fxgraph_cache_hit": 2})
    dynamo.counters["aot_autograd"]["autograd_cache_miss"] = 1
    facts = StepFacts()
    note_found(facts, 2)
    (found,) = facts.state.differences
    assert (found.where, found.compiled) == ("the cache of AOTAutograd", "1 miss")


def test_the_end_of_a_process_is_a_step():
    process = Future()
    process.set_exception(FreshProcessError("a fresh process was killed by SIGSEGV:"))
    progress = Progress(lambda stage: None)
    builder = Builder(registry.load()["matvec"], CASE, 0, progress)
    bench = Bench(builder, Request(case=CASE.id, wants=()), progress, Reference(builder), False)
    caches.take(bench, process)
    (step,) = bench.steps
    assert (step.name, "SIGSEGV" in step.raised) == ("use the cache in another process", True)


def test_a_process_can_answer_with_everything_that_a_step_holds(tmp_path):
    """Half precision adds pooled errors, which a step in float32 lacks."""
    decision = Decision(where="output", eager="9", compiled="10", elements=1, answered=0)
    whole = make_checked(make_error("output", dtype="bfloat16"), differences=[make_difference()])
    pooled = Pooled(ratio=1.0, tensors=1, elements=4, nudged=(1.0,))
    step = replace(STEP, outputs=replace(whole, decisions=(decision,), pooled=pooled))
    torch.save({"steps": [step]}, tmp_path / "answer.pt")
    with torch.serialization.safe_globals([*dataclasses_in(Step)]):
        answer = torch.load(tmp_path / "answer.pt", weights_only=True)
    assert answer == {"steps": [step]}


def test_a_graph_that_is_found_after_a_change_is_noted(counters):
    counters.update({"fxgraph_cache_miss": 1})
    missed = StepFacts()
    note_not_found(missed)
    counters.update({"fxgraph_cache_hit": 1})
    found = StepFacts()
    note_not_found(found)
    assert (len(missed.state.differences), len(found.state.differences)) == (0, 1)


def test_damage_is_done_to_copies(tmp_path):
    filled = tmp_path / "filled"
    files = {name: filled / name for name in ("fxgraph/a/b", "aotautograd/a/b", "x/kernel.so")}
    for file in files.values():
        file.parent.mkdir(parents=True)
        file.write_bytes(b"1234")

    def sizes(folder):
        return [(folder / name).stat().st_size for name in files]

    with_truncated_graphs(filled, tmp_path / "truncated")
    assert with_empty_kernels(filled, tmp_path / "emptied")
    assert sizes(tmp_path / "truncated") == [2, 2, 4]
    assert sizes(tmp_path / "emptied") == [4, 4, 0]
    assert sizes(filled) == [4, 4, 4]
    files["x/kernel.so"].unlink()
    assert not with_empty_kernels(filled, tmp_path / "without")
