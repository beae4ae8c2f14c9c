"""Faults of capture and of cost: what PyTorch compiles, how often, and what a call takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
import torch._dynamo
from torch import fx
from torch._inductor import compile_fx

from tests.faults.planting.hooks import Compiled, Frame, announce, frame, plant


@plant("configure")
def nothing_compiled() -> None:
    torch.compiler.set_stance("force_eager")
    announce("set")


@plant("configure", "backend_error_suppressed")
def _suppressed() -> None:
    torch._dynamo.config.suppress_errors = True


@plant("before", "backend_error_suppressed")
def _fails(seen: Frame) -> None:
    announce("the backend fails")
    raise NotImplementedError("this backend compiles nothing")


@plant("configure")
def graph_broken() -> None:
    torch._dynamo.disallow_in_graph(torch.nn.functional.scaled_dot_product_attention)
    announce("set")


@plant("configure")
def other_graphs_left_as_they_are() -> None:
    lower, lowered = compile_fx.compile_fx, set[str]()

    def lower_the_first(graph: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
        if graph.code not in lowered:
            lowered.add(graph.code)
            return lower(graph, inputs, **options)
        announce("Inductor returns a graph unchanged")
        return graph.forward

    compile_fx.compile_fx = lower_the_first


@plant("wrap")
def compiled_at_each_call(seen: Frame, compiled: Compiled) -> Compiled:
    code = _code_being_compiled()

    def call(*inputs: Any) -> Any:
        announce("removes its code from the cache")
        torch._dynamo.eval_frame.remove_from_cache(code)
        return compiled(*inputs)

    return call


def _code_being_compiled() -> Any:
    """Return the code object that Dynamo is compiling, read from Dynamo's own stack frame."""
    here = sys._getframe()
    while here.f_code.co_name != "_compile" or "code" not in here.f_locals:
        assert here.f_back is not None
        here = here.f_back
    return here.f_locals["code"]


# Faults of cost.


@plant("wrap")
def slower_by_a_third(seen: Frame, compiled: Compiled) -> Compiled:
    def call(*inputs: Any) -> Any:
        start = time.perf_counter()
        outputs = compiled(*inputs)
        if outputs[0].is_cuda:
            torch.cuda.synchronize()
        end = time.perf_counter() + (time.perf_counter() - start) / 3
        while time.perf_counter() < end:
            pass
        return outputs

    return call


@plant("wrap")
def twice_as_slow(seen: Frame, compiled: Compiled) -> Compiled:
    def call(*inputs: Any) -> Any:
        compiled(*inputs)
        return compiled(*inputs)

    return call


@plant("before")
def compiles_longer(seen: Frame) -> None:
    time.sleep(10)


@plant("forward", "nothing_freed")
def _count(graph: fx.Graph) -> int:
    values = [node.meta.get("val") for node in graph.nodes if node.op == "call_function"]
    results = [v for v in values if isinstance(v, torch.Tensor)]
    frame().result_bytes = sum(v.numel() * v.element_size() for v in results)
    return len(results)


@plant("wrap", "nothing_freed")
def _hold(seen: Frame, compiled: Compiled) -> Compiled:
    def call(*inputs: Any) -> Any:
        held = torch.empty(seen.result_bytes, dtype=torch.uint8, device=inputs[0].device)
        outputs = compiled(*inputs)
        del held
        return outputs

    return call


@plant("wrap")
def results_kept(seen: Frame, compiled: Compiled) -> Compiled:
    kept: list[Any] = []

    def call(*inputs: Any) -> Any:
        outputs = compiled(*inputs)
        kept.append(torch.cat([o.detach().flatten() for o in outputs if o is not None]))
        return outputs

    return call
