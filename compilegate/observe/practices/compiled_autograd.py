"""Compiled autograd: the whole backward is captured as one graph when it runs, and compiled.

https://docs.pytorch.org/tutorials/intermediate/compiled_autograd_tutorial.html
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
import torch._dynamo.compiled_autograd as autograd_compiler
from torch._dynamo.utils import counters

from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.eager_loops import make_loop, strengths_of
from compilegate.observe.practices.loop_steps import train
from compilegate.observe.practices.loops import Loop, Recipe
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.practice import Practice

#: Gradients arrive in empty parameters first, then are added to others. Each is a graph.
RECIPE = Recipe("SGD", steps=6)


def observe(bench: Bench) -> Practice:
    """Train a compiled model whose backward is compiled as one graph."""
    enable = getattr(autograd_compiler, "_enable", None)
    if enable is None:
        return Practice(unavailable="this PyTorch has no compiled autograd")
    try:
        strengths = strengths_of(bench)
    except StepUnavailableError as reason:
        return Practice(unavailable=str(reason))
    compiled = bench.build_compiled()

    def around(index: int) -> AbstractContextManager[object]:
        compiler: Any = torch.compile(backend=bench.request.backend)
        context: AbstractContextManager[object] = enable(compiler)
        return context

    def make() -> Loop:
        loop = make_loop(bench, compiled, RECIPE, strengths)
        loop.around_forward = loop.around_backward = around
        return loop

    train(bench, RECIPE, strengths, make)
    with bench.step("graphs of compiled autograd") as facts:
        captures = counters["compiled_autograd"]["captures"]
        facts.require_graph(is_captured=captures > 0, where="backward")
    return bench.practice()
