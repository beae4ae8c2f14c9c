"""Faults of sizes: code that is right at the first size and wrong or recompiled at others."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch._dynamo
from torch import fx

from tests.faults.planting.hooks import Compiled, Frame, announce, plant
from tests.faults.planting.surgery import aten, emit, first_output, value


def _size(graph: fx.Graph) -> fx.Node:
    """Return the placeholder of the graph's symbolic size."""
    return next(
        node
        for node in graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.SymInt)
    )


@plant("forward")
def size_baked_in(graph: fx.Graph) -> int:
    size = _size(graph)
    first = value(size).node.hint

    def divided(node: fx.Node) -> fx.Node:
        ratio = emit(graph, operator.truediv, size, first)
        return emit(graph, aten.mul.Tensor, node, ratio)

    return first_output(graph, divided)


@plant("forward")
def rows_beyond_the_first_size(graph: fx.Graph) -> int:
    size = _size(graph)
    first = value(size).node.hint

    def cut(node: fx.Node) -> fx.Node:
        rows = emit(graph, aten.arange.start_step, 0, size, 1, device=value(node).device)
        within = emit(graph, aten.lt.Scalar, rows, first)
        column = emit(graph, aten.view.default, within, [-1, *[1] * (value(node).dim() - 1)])
        return emit(graph, aten.mul.Tensor, node, column)

    return first_output(graph, cut)


@plant("before")
def size_specialized(seen: Frame) -> None:
    for size in seen.inputs:
        if isinstance(size, torch.SymInt):
            int(size)


@plant("configure")
def automatic_dynamic_lost() -> None:
    torch._dynamo.config.automatic_dynamic_shapes = False
    announce("set")


@plant("configure")
def limit_hit() -> None:
    torch._dynamo.config.recompile_limit = 1
    announce("set")


@plant("wrap")
def eager_at_other_sizes(seen: Frame, compiled: Compiled) -> Compiled:
    def call(*inputs: Any) -> Any:
        torch.compiler.set_stance("eager_on_recompile")
        return compiled(*inputs)

    return call
