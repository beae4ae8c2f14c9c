"""A toolchain that fails is a compiler that fails: neither the model nor eager is to blame."""

import pytest
import torch
from torch._inductor import compile_fx
from torch._inductor.utils import fresh_cache

from compilegate.observe.model_session import ModelSession
from compilegate.records.request import Request
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.observed import Linear


@pytest.mark.parametrize("lasts", [True, False])
def test_a_case_is_judged_by_its_own_graphs(monkeypatch, lasts):
    """The graph that warms the toolchain fails, and those of the model may."""
    compiles, stages, failed_in = compile_fx._compile_fx_inner, [], []

    def fails(graph, inputs, **options):
        if lasts or not failed_in:
            failed_in.append(stages[-1])
            raise ValueError("no compiler")
        return compiles(graph, inputs, **options)

    monkeypatch.setattr(compile_fx, "_compile_fx_inner", fails)

    def build():
        return Example(Linear(), inputs=lambda: (torch.randn(2, 4),))

    request = Request(
        case="m-cpu-infer-f32-default-static", wants=("capture",), backend="inductor", cold=True
    )
    entry = Model("m", "m", {}, build=build)
    with fresh_cache():
        seen = ModelSession({"m": entry}, stages.append).observe(request)
    assert failed_in[0] == "compile"
    assert seen.status == ("raised" if lasts else "completed"), seen.failure
    assert (seen.failure.stage if seen.failure else "") == ("compile" if lasts else "")
