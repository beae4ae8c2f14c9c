"""The practice ``serving``: faults that threads show, a deadlock, and how its speed is judged."""

import threading

import pytest
import torch
from torch import nn

from compilegate.judging.budget import Budget
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices import calling_threads, serving
from compilegate.observe.practices.bench import Bench
from compilegate.records.case import Case
from compilegate.records.practice import Practice, Step
from compilegate.records.request import Request
from compilegate.suites.test_serving import rule
from compilegate.zoo import registry
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.integration.conftest import ZOOS
from tests.unit.making import make_checked, make_error, make_observation
from tests.unit.rules.common import assert_proposal_helps

STEP = Step(name="threads call", outputs=make_checked(make_error("output")))
FIGURES = {
    "threads": 4.0,
    "throughput_ratio": 1.3,
    "throughput_low_ratio": 1.2,
    "throughput_high_ratio": 1.4,
    "threads_ratio": 1.9,
    "p95_ratio": 0.8,
    "p95_low_ratio": 0.7,
    "p95_high_ratio": 0.9,
    "compiled_p95_ms": 2.0,
    "eager_p95_ms": 2.5,
    "calls_busy_share": 0.0,
}


def observed(practice):
    return make_observation(
        practices={"serving": practice}, wants=("capture", "serving"), reference="float64"
    )


def practised(**figures):
    return observed(Practice(steps=(STEP,), graphs=1, figures=FIGURES | figures))


def test_speed_is_shown_and_not_judged_without_a_budget():
    finding = rule(practised(throughput_low_ratio=0.1, throughput_high_ratio=0.2), Budget())
    assert finding.outcome == "passed"
    assert finding.summary.endswith(
        "4 threads make 1.30× eager's calls a second and 1.90× those of one thread; "
        "95th percentile 2 ms (eager 2.5 ms)"
    )


BUSY = {"calls_busy_share": 0.5}


@pytest.mark.parametrize(
    ("budget", "figures", "outcome"),
    [
        (Budget(min_serving_throughput=1.2), {}, "passed"),
        (Budget(min_serving_throughput=1.3), {}, "inconclusive"),
        (Budget(min_serving_throughput=1.5), {}, "failed"),
        (Budget(min_serving_throughput=1.5), BUSY, "inconclusive"),
        (Budget(max_serving_p95=0.9), {}, "passed"),
        (Budget(max_serving_p95=0.8), {}, "inconclusive"),
        (Budget(max_serving_p95=0.6), {}, "failed"),
        (Budget(max_serving_p95=0.6), BUSY, "inconclusive"),
        (Budget(min_serving_throughput=1.3, max_serving_p95=0.6), {}, "failed"),
    ],
)
def test_a_budget_judges_the_speed(budget, figures, outcome):
    assert rule(practised(**figures), budget).outcome == outcome


@pytest.mark.parametrize("key", ["min_serving_throughput", "max_serving_p95"])
def test_speed_that_was_not_measured_is_inconclusive(key):
    unmeasured = observed(Practice(steps=(STEP,), graphs=1, figures={"threads": 4.0}))
    assert rule(unmeasured, Budget(**{key: 1.0})).outcome == "inconclusive"


@pytest.mark.parametrize(
    "budget", [Budget(min_serving_throughput=4.0), Budget(max_serving_p95=0.1)]
)
def test_the_proposed_budget_passes(budget):
    assert_proposal_helps(rule, practised(), budget)


@pytest.fixture(scope="module")
def models():
    found = registry.load_file(ZOOS / "practised_serving.py", must_define_model=True)
    return {model.name: model for model in found}


def finding_of(model, precision="f32"):
    case = Case.parse(f"{model.name}-cpu-infer-{precision}-default-static")
    progress = Progress(lambda stage: None)
    builder = Builder(model, case, 0, progress)
    wants = ("capture", "serving")
    request = Request(case=case.id, wants=wants, backend="aot_eager", timing_budget_s=0.1)
    bench = Bench(builder, request, progress, Reference(builder), draws=False)
    return rule(observed(serving.observe(bench)), Budget())


AT_ONCE = "4 threads call a compiled module at once: "


@pytest.mark.parametrize(
    ("sound", "faulty", "complaint"),
    [
        (
            "threads_have_own_buffers",
            "threads_share_a_buffer",
            f"{AT_ONCE}answer of thread ",
        ),
        (
            "depends_on_the_process",
            "depends_on_the_thread",
            f"{AT_ONCE}4 more compilations, where none is needed",
        ),
        (
            "right_under_inference_mode",
            "wrong_under_inference_mode",
            "inference_mode after no_grad: output (float32): root mean square error is ",
        ),
    ],
)
def test_a_fault_fails_and_its_twin_passes(models, sound, faulty, complaint):
    healthy = finding_of(models[sound])
    assert healthy.outcome == "passed", healthy
    finding = finding_of(models[faulty])
    assert finding.outcome == "failed"
    assert finding.summary.startswith(complaint), finding.summary


def test_a_deadlock_fails_with_the_stacks_of_the_threads_and_its_twin_passes(models, monkeypatch):
    assert finding_of(models["waits_for_a_free_lock"]).outcome == "passed"
    monkeypatch.setattr(calling_threads, "STUCK_S", 1.0)
    held = models["waits_for_a_held_lock"].build.__globals__["held"]
    try:
        finding = finding_of(models["waits_for_a_held_lock"])
    finally:
        held.release()  # the threads end
    assert finding.outcome == "failed"
    assert finding.summary == (
        f"{AT_ONCE}raised StuckThreadsError: thread 1, 2, 3, 4 of 4 did not end: nothing ran for "
        "1 s"
    )
    assert any("with held:" in line for line in finding.details)


def test_threads_do_not_use_the_casts_that_autocast_keeps_for_all_of_them(models, monkeypatch):
    """Their lock and Python's deadlock while a thread compiles."""
    keeps, original = [], torch.autocast

    def autocast(*args, cache_enabled, **kwargs):
        keeps.append(cache_enabled)
        return original(*args, cache_enabled=cache_enabled, **kwargs)

    monkeypatch.setattr(torch, "autocast", autocast)
    finding = finding_of(models["right_under_inference_mode"], "bf16")
    assert finding.outcome == "passed", finding
    assert {*keeps} == {False}


class Counting(nn.Module):
    """Counts its calls in a buffer, and fills a cache in the first one."""

    def __init__(self, step):
        super().__init__()
        self.linear, self.step, self.rates = nn.Linear(4, 4), step, {}
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        if "one" not in self.rates:
            self.rates["one"] = torch.arange(4.0).cos()
        self.calls += self.step if torch.compiler.is_compiling() else 1.0
        return self.linear(x) * self.rates["one"]


@pytest.mark.parametrize(("step", "outcome"), [(1.0, "passed"), (2.0, "failed")])
def test_calls_may_be_counted_and_each_only_once(step, outcome):
    inputs = {"inputs": lambda batch: (torch.randn(batch, 4),)}
    build = lambda: Example(Counting(step), **inputs)  # noqa: E731
    finding = finding_of(Model("counting", "own", {"batch": (8, 5)}, build=build))
    assert finding.outcome == outcome, finding
    assert outcome == "passed" or f"{AT_ONCE}buffer calls (float32)" in finding.summary


def test_a_model_whose_calls_are_alike_is_not_served(models):
    finding = finding_of(models["fixed_inputs"])
    assert (finding.outcome, finding.summary) == (
        "skipped",
        "unavailable: the recipe makes no inputs that differ from call to call",
    )


def test_threads_return_what_their_work_returned_and_raise_its_error():
    def refuse(number):
        if number:
            raise ValueError(f"no {number}")

    with calling_threads.calling(3, lambda: None) as threads:
        assert threads.run(lambda number: number * 2) == [0, 2, 4]
        assert threads.run(lambda number: number, threads=1) == [0]
        with pytest.raises(ValueError, match="no 1"):
            threads.run(refuse)
    assert not [t for t in threading.enumerate() if t.name.startswith("calling thread")]
