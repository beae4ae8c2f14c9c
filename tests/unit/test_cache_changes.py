"""What a graph is looked up by: a change that must not be found, and planted faults of the key."""

import re
from unittest import mock

import pytest
import torch
from torch import nn
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCachePickler
from torch._inductor import cpu_vec_isa
from torch._inductor.codecache import FxGraphCachePickler
from torch._inductor.graph import GraphLowering

from compilegate import Example
from compilegate.judging.practices import judge_steps
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices import cache_modules, cache_weights
from compilegate.observe.practices.bench import Bench
from compilegate.records.case import Case
from compilegate.records.request import Request
from compilegate.zoo.registry import Model
from tests.unit.making import make_observation

CASE = Case.parse("scaled-cpu-infer-f32-default-static")


class Scaled(nn.Module):
    """Multiplies by a weight that becomes a constant of frozen code."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.arange(1.0, 5.0))

    def forward(self, x):
        return x * self.scale


@pytest.fixture
def bench():
    cpu_vec_isa.pick_vec_isa()  # in the shared cache, which remembers what the processor can do

    def recipe():
        return Example(Scaled(), inputs=lambda: (torch.randn(6, 4),))

    progress = Progress(lambda stage: None)
    builder = Builder(Model("scaled", "tests", build=recipe), CASE, 0, progress)
    request = Request(case=CASE.id, wants=())
    return Bench(builder, request, progress, Reference(builder), draws=False)


def judged(bench):
    practice = bench.practice()
    return judge_steps(make_observation(practices={"caches": practice}), "caches")


def test_a_change_of_the_code_is_not_found(bench, tmp_path):
    cache_modules.change_one_thing(bench, tmp_path)
    assert judged(bench).outcome == "passed"


def test_a_constant_that_is_not_part_of_the_key_is_found(bench, tmp_path):
    complete = FxGraphCachePickler.dumps

    def without_constants(self, value):
        return re.sub(rb"alpha ?= ?[\d.]+", b"alpha", complete(self, value))

    with mock.patch.object(FxGraphCachePickler, "dumps", without_constants):
        cache_modules.change_one_thing(bench, tmp_path)
    finding = judged(bench)
    assert finding.outcome == "failed"
    assert finding.summary.startswith("compile another constant in its code: output (float32)")


def test_a_dtype_of_autocast_that_is_not_part_of_the_key_is_found(bench, tmp_path, monkeypatch):
    complete = AOTAutogradCachePickler.dumps

    def without_dtypes(self, value):
        states = getattr(value, "autocast_state", {})
        value.autocast_state = {device: is_on for device, (is_on, _) in states.items()}
        return complete(self, value)

    monkeypatch.setattr(AOTAutogradCachePickler, "dumps", without_dtypes)
    cache_modules.change_one_thing(bench, tmp_path)
    finding = judged(bench)
    assert finding.outcome == "failed"
    assert finding.summary.startswith(
        "compile a small module under autocast to float16: output: dtype differs: "
        "eager float16, compiled bfloat16"
    )


@pytest.mark.parametrize(("is_faulty", "outcome"), [(False, "passed"), (True, "failed")])
def test_frozen_code_of_other_weights_must_not_be_used(bench, tmp_path, is_faulty, outcome):
    inlined = GraphLowering.can_inline_constant

    def forgetful(tensor):
        return not is_faulty and inlined(tensor)

    complete = FxGraphCachePickler._reduce_tensor

    def reduced(self, tensor):
        with mock.patch.object(GraphLowering, "can_inline_constant", forgetful):
            return complete(self, tensor)

    with mock.patch.object(FxGraphCachePickler, "_reduce_tensor", reduced):
        cache_weights.freeze(bench, tmp_path)
    finding = judged(bench)
    assert finding.outcome == outcome, finding
    if is_faulty:
        assert finding.summary.startswith("freeze other weights, with the code of frozen ones")
