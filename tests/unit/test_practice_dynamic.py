"""Dynamic strategies: padding, the names of sources, and limits that PyTorch does not keep."""

import functools
from unittest import mock

import pytest
import torch
from torch import nn
from torch._dynamo import convert_frame, exc

from compilegate import Example
from compilegate.judging.budget import Budget
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices import buckets, padding, recompile_limits
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.buckets import Compiled
from compilegate.observe.practices.varied_sizes import VariedSizes, of_case
from compilegate.records.case import Case
from compilegate.records.practice import Practice, Step
from compilegate.records.request import Request
from compilegate.suites.test_dynamic_strategies import rule
from compilegate.zoo.registry import Model
from tests.unit.making import make_checked, make_error, make_observation

CASE = Case.parse("net-cpu-infer-f32-default-auto")
SIZES = ({"batch": 6}, {"batch": 4}, {"batch": 7})
ONE_OBJECT = Compiled(objects=1, recompiles=False, breaks=frozenset())


class Masked(nn.Module):
    """A network that sees only the tokens that its mask keeps, as a text model does."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x, *, mask):
        return {"mean": self.linear((x * mask).sum(1) / mask.sum(1)), "each": self.linear(x)}


def masked():
    return Example(
        Masked(),
        inputs=lambda batch, length: (torch.randn(batch, length, 8),),
        kwargs=lambda batch, length: {"mask": torch.ones(batch, length, 1)},
        dims={0: {0: "batch", 1: "length"}, "mask": {0: "batch", -2: "length"}},
    )


def linear():
    return Example(
        nn.Linear(8, 4), inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}}
    )


def make_bench(build=linear, **vary):
    model = Model("net", "own", vary=vary or {"batch": (6, 4, 7)}, build=build)
    progress = Progress(lambda stage: None)
    builder = Builder(model, CASE, 0, progress)
    request = Request(case=str(CASE), wants=("capture", "dynamic_strategies"))
    return Bench(builder, request, progress, Reference(builder), draws=False)


def verdict(steps, **figures):
    practice = Practice(steps=tuple(steps), graphs=1, figures=figures)
    observation = make_observation(
        case=str(CASE), practices={"dynamic_strategies": practice}, reference="float64"
    )
    return rule(observation, Budget())


@pytest.mark.parametrize("name", ["batch", "length"])
def test_padding_a_masked_dimension_changes_nothing_else(name):
    bench = make_bench(masked, batch=(3, 2), length=(5, 4))
    sizes = {"batch": 3, "length": 5}
    assert padding.reason_against(bench.builder, sizes, {**sizes, name: 8}) == ""


def normalised():
    """A batch norm that normalises by the batch, as every one does in training."""
    norm = nn.BatchNorm1d(8, track_running_stats=False)
    return Example(norm, inputs=linear().inputs, dims={0: {0: "batch"}})


def test_padding_that_changes_other_items_is_not_done_and_names_the_output():
    bench = make_bench(normalised)
    compiled = buckets.observe(bench, of_case(bench), {"backend": "eager", "dynamic": False})
    assert compiled == ONE_OBJECT
    assert [(step.name, step.unavailable) for step in bench.steps] == [
        ("dynamic=False, batch=6", ""),
        ("pad batch", "padding changes eager's output"),
    ]
    assert bench.figures == {}


def test_as_many_graphs_are_compiled_as_there_are_buckets():
    bench = make_bench(linear)
    buckets.observe(bench, of_case(bench), {"backend": "eager", "dynamic": False})
    assert [(step.name, step.compilations) for step in bench.steps] == [
        ("dynamic=False, batch=6", None),
        ("warm up batch=8", 1),
        ("pad batch=4 to batch=6", 0),
        ("pad batch=7 to batch=8", 0),
    ]
    assert bench.figures["buckets"] == 2
    assert verdict(bench.steps).outcome == "passed"


def test_a_size_that_eager_refuses_is_no_bucket():
    class AtMostSix(nn.Linear):
        def forward(self, x):
            if len(x) > 6:
                raise ValueError("at most 6")
            return super().forward(x)

    builder = make_bench(
        lambda: Example(AtMostSix(8, 4), inputs=linear().inputs, dims={0: {0: "batch"}})
    ).builder
    reason = padding.reason_against(builder, {"batch": 4}, {"batch": 8})
    assert reason == "eager raises ValueError: at most 6 in float64"


def test_a_padded_result_is_cut_to_the_shapes_of_eager():
    bench = make_bench()
    small, large = PlannedCall(0, {"batch": 4}), PlannedCall(0, {"batch": 8})
    eager, compiled = bench.build(), bench.build()
    like = eager.call(eager.prepare(small), 0)
    cut = padding.cut(compiled.call(compiled.prepare(large), 0), like)
    assert cut.output["output"].shape == (4, 4)
    assert cut.layout == like.layout


def test_only_dimensions_of_inputs_with_several_sizes_vary():
    sizes = of_case(make_bench(masked, batch=(3,), length=(5, 4), other=(2, 3)))
    assert sizes == VariedSizes({"batch": (3,), "length": (5, 4), "other": (2, 3)}, ("length",))
    assert sizes.others("length") == [{"batch": 3, "length": 4, "other": 2}]
    assert of_case(make_bench(linear, batch=(6,))) is None


def test_inputs_that_are_always_the_same_do_not_vary():
    def fixed():
        return Example(nn.Linear(8, 4), inputs=(torch.ones(6, 8),), dims={0: {0: "batch"}})

    assert of_case(make_bench(fixed)) is None


def test_pytorch_keeps_its_limits():
    bench = make_bench()
    recompile_limits.observe(bench, SIZES, ONE_OBJECT)
    assert verdict(bench.steps).outcome == "passed", verdict(bench.steps)
    assert [step.compilations for step in bench.steps if step.needed] == [2, 1]


def test_a_limit_that_pytorch_does_not_keep_fails():
    bench = make_bench()
    never = mock.patch.object(convert_frame, "exceeds_recompile_limit", return_value=(False, ""))
    with never:
        recompile_limits.observe(bench, SIZES, ONE_OBJECT)
    found = verdict(bench.steps).details
    for line in (
        "recompile_limit = 2, 3 sizes: what the compile log names: no recompile limit, where a "
        "recompile limit is required",
        "fail_on_recompile_limit_hit = True, batch=6, then batch=4: a call with batch=4: no error, "
        "where FailOnRecompileLimitHit is required",
        "recompile_limit = 2, 3 sizes: 3 compilations, 2 needed: ",
    ):
        assert any(one.startswith(line) for one in found), found


def test_a_recompilation_that_is_not_refused_fails():
    real = convert_frame.get_and_maybe_log_recompilation_reasons

    @functools.wraps(real)
    def lenient(*args, **kwargs):
        try:
            return real(*args, **kwargs)
        except exc.RecompileError:
            return []

    bench = make_bench()
    with mock.patch.object(convert_frame, real.__name__, lenient):
        recompile_limits.observe(bench, SIZES, ONE_OBJECT)
    finding = verdict(bench.steps)
    assert finding.summary == (
        "error_on_recompile = True, batch=6, then batch=4: a call with batch=4: no error, where "
        "RecompileError is required"
    )


def test_a_model_that_recompiles_or_breaks_graphs_is_not_limited_to_one_compilation():
    bench = make_bench()
    broken = ONE_OBJECT._replace(objects=2, recompiles=True, breaks=frozenset({None}))
    recompile_limits.observe(bench, SIZES, broken)
    assert [step.unavailable for step in bench.steps if step.unavailable] == [
        "the model recompiles a code object at one size",
        "the model breaks graphs",
        "the model recompiles a code object at one size",
    ]


def test_the_buckets_are_shown():
    step = Step(name="dynamic=False, batch=6", outputs=make_checked(make_error("output")))
    shown = verdict([step], buckets=2, further_bucket_compile_s=3.21).summary
    assert shown.endswith("; 2 buckets, a further one compiles in 3.2 s")
    assert "bucket" not in verdict([step]).summary
