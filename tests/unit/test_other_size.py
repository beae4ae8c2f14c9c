"""Code for a second size that is slow or wasteful shows in calls at that size."""

import dataclasses
import time

import pytest
import torch

from compilegate.judging.budget import Budget
from compilegate.observe.model_session import ModelSession
from compilegate.records.performance import OtherSize
from compilegate.records.request import Request
from compilegate.suites import test_compile_time, test_memory, test_speedup
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.making import make_compile_time, make_memory, make_observation, make_timing

MIB = 2**20


@torch._dynamo.allow_in_graph
def slow(x):
    time.sleep(0.2)  # far more than a busy machine adds to a call in eager, a hundred times
    return x.clone()


@torch._dynamo.allow_in_graph
def wasteful(x):
    torch.empty(32 * MIB, dtype=torch.uint8)  # freed before it returns
    return x.clone()


@torch._dynamo.allow_in_graph
def sound(x):
    return x.clone()


def observation(costly):
    """Observe a function that calls another one in compiled code, at one size alone."""

    def build():
        def double(x):
            return costly(x) * 2 if torch.compiler.is_compiling() and len(x) == 5 else x * 2

        return Example(
            double, inputs=lambda batch: (torch.randn(batch, 4),), dims={0: {0: "batch"}}
        )

    entry = Model("m", "m", {"batch": (8, 5)}, build=build)
    request = Request(
        case="m-cpu-infer-f32-default-static",
        wants=("capture", "time", "memory", "vary"),
        backend="eager",
        timing_budget_s=0.1,
    )
    seen = ModelSession({"m": entry}, lambda stage: None).observe(request)
    assert seen.status == "completed", seen.failure
    return seen


@pytest.mark.parametrize(
    ("costly", "speedup", "memory"),
    [
        (sound, "", ""),
        (slow, "at batch=5, a call takes", ""),
        (wasteful, "", "at batch=5, peak 32"),
    ],
)
def test_what_costs_more_at_another_size_alone_fails(costly, speedup, memory):
    seen = observation(costly)
    budget = Budget(
        min_speedup=0.01, max_call_overhead=5, max_memory_ratio=1.3, memory_slack_bytes=MIB
    )
    found = test_memory.rule(seen, budget)
    assert (memory in found.summary, found.outcome) == (True, "failed" if memory else "passed")
    calls = test_speedup._elsewhere(seen.other_size, seen.timing, budget)
    assert bool(calls) == bool(speedup)
    assert all(call.text.startswith(speedup) for call in calls)
    assert {call.outcome for call in calls} <= {"failed", "inconclusive"}  # on a busy machine


@pytest.mark.parametrize(
    ("compiled_ms", "busy", "outcome"),
    [(3.9, 0.5, "passed"), (9.0, 0.5, "inconclusive"), (9.0, 0.0, "failed"), (50.0, 0.5, "failed")],
)
def test_other_processes_explain_no_factor_of_fifteen(compiled_ms, busy, outcome):
    """Eager takes 1 ms, so 4 ms are allowed there, and five times as much on a busy machine."""
    other = OtherSize(
        sizes={"batch": 4},
        eager_ns=(1e6,) * 7,
        compiled_ns=(1e6 * compiled_ms,) * 7,
        busy=busy,
    )
    seen = make_observation(timing=make_timing(2.0), other_size=other)
    found = test_speedup.rule(seen, Budget(min_speedup=1.0, max_call_overhead=0))
    assert found.outcome == outcome
    if outcome == "inconclusive":
        assert "at batch=4, a call takes 9 ms" in found.summary
        assert "other processes took 50% of the processor" in found.summary


@pytest.mark.parametrize(
    ("busy", "threads", "outcome"),
    [
        (0.517, 2, "inconclusive"),
        (0.02, 2, "failed"),  # an idle machine
        (0.517, 1, "failed"),  # no thread waits for another one
        (0.517, 0, "failed"),  # a GPU
    ],
)
def test_threads_that_wait_for_each_other_explain_any_factor(busy, threads, outcome):
    """Recorded next to other work, with calls that take as long as in eager on an idle machine."""
    other = OtherSize(
        sizes={"rows": 383}, eager_ns=(80_280.0,) * 7, compiled_ns=(15.15e6,) * 7, busy=busy
    )
    timing = dataclasses.replace(make_timing(2.0), threads=threads, empty_call_ns=50e3)
    seen = make_observation(timing=timing, other_size=other)
    found = test_speedup.rule(seen, Budget(min_speedup=1.0, max_call_overhead=5))
    assert found.outcome == outcome
    assert "at rows=383, a call takes 15.15 ms, in eager 0.08028 ms" in found.summary
    waited = "other processes took 52% of the processor, and the 2 threads of a call wait for"
    assert (waited in found.summary) == (outcome == "inconclusive")


def test_the_call_that_compiles_for_another_size_is_recorded():
    seen = observation(sound)
    assert seen.compile_time.other_call == "call 3 (batch=5)"
    assert seen.compile_time.other_s > 0


@pytest.mark.parametrize(
    ("other_s", "busy", "outcome"),
    [(119.0, 0.0, "passed"), (121.0, 0.0, "failed"), (121.0, 0.5, "inconclusive")],
)
def test_compiling_for_another_size_may_take_twice_as_long(other_s, busy, outcome):
    first = make_compile_time(40.0)
    seen = dataclasses.replace(
        first, other_call="call 4 (batch=5)", other_s=other_s, other_busy=busy
    )
    budget = Budget(max_compile_s=60.0)
    found = test_compile_time.rule(make_observation(cold=True, compile_time=seen), budget)
    assert found.outcome == outcome
    if outcome != "passed":
        assert found.summary.startswith("call 4 (batch=5): 121.0 s, at most 120 s allowed")
        assert "40.0 s at the first" in found.summary
    assert ("other processes took 50%" in found.summary) == (outcome == "inconclusive")


@pytest.mark.parametrize(("compiled_mib", "outcome"), [(3.5, "passed"), (3.7, "failed")])
def test_the_slack_of_memory_is_not_doubled_at_another_size(compiled_mib, outcome):
    other = OtherSize(
        sizes={"batch": 4}, eager_peak_bytes=MIB, compiled_peak_bytes=int(compiled_mib * MIB)
    )
    seen = make_observation(memory=make_memory(MIB, MIB), other_size=other)
    budget = Budget(max_memory_ratio=1.3, memory_slack_bytes=MIB)
    assert test_memory.rule(seen, budget).outcome == outcome
