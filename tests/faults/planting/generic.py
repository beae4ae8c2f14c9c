"""Faults that are planted in any model: they look for nothing that only some models have."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
import torch._dynamo
from torch import fx

from tests.faults.planting.hooks import PLANTS, Compiled, Frame, Plant, announce, plant
from tests.faults.planting.state import each_call
from tests.faults.planting.surgery import (
    added_to_one,
    aten,
    calls,
    emit,
    first_output,
    is_floating,
    outputs,
    prims,
    put_after,
    replace_outputs,
    rolled,
    scaled,
    value,
)

PLANTS["sound"] = Plant()


def _first_product(graph: fx.Graph) -> list[fx.Node]:
    return calls(graph, aten.mm, aten.addmm, aten.convolution)[:1]


def _rounded(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """Cut float32 to the bits of bfloat16. Inductor fuses two casts, and then rounds nothing."""
    bits = emit(graph, aten.view.dtype, node, torch.int32)
    kept = emit(graph, aten.bitwise_and.Scalar, bits, -(2**16))
    return emit(graph, aten.view.dtype, kept, torch.float32)


def _below(graph: fx.Graph, node: fx.Node, end: Any, limit: int) -> fx.Node:
    """Return which of the indices up to an end are below a limit."""
    options = {"dtype": torch.int64, "device": value(node).device}
    index = emit(graph, prims.iota.default, end, start=0, step=1, requires_grad=False, **options)
    return emit(graph, aten.lt.Scalar, index, limit)


def _masked(graph: fx.Graph, node: fx.Node, kept: fx.Node) -> fx.Node:
    """Put zeros where a mask, which broadcasts, is false."""
    factor = emit(graph, prims.convert_element_type.default, kept, value(node).dtype)
    return emit(graph, aten.mul.Tensor, node, factor)


# Values.


@plant("forward")
def one_element_off(graph: fx.Graph) -> int:
    """Add a hundredth to one element, and in half precision a quarter."""

    def add(node: fx.Node) -> fx.Node:
        amount = 0.01 if value(node).dtype is torch.float32 else 0.25
        return added_to_one(graph, node, amount)

    return first_output(graph, add)


@plant("forward")
def last_column_unwritten(graph: fx.Graph) -> int:
    """Leave zeros in the last column of a product, as a loop does that stops one too early."""

    def cut(node: fx.Node) -> fx.Node:
        width = value(node).shape[-1]
        return _masked(graph, node, _below(graph, node, width, width - 1))

    return sum(put_after(graph, node, cut) for node in _first_product(graph))


@plant("forward")
def columns_rolled(graph: fx.Graph) -> int:
    """Read a product's result one column off."""

    return sum(
        put_after(graph, node, functools.partial(rolled, graph)) for node in _first_product(graph)
    )


@plant("forward")
def rows_rolled(graph: fx.Graph) -> int:
    """Return the rows of the batch one row off."""

    def roll(node: fx.Node) -> fx.Node:
        end = emit(graph, aten.slice.Tensor, node, 0, -1, sys.maxsize)
        start = emit(graph, aten.slice.Tensor, node, 0, 0, -1)
        return emit(graph, aten.cat.default, [end, start])

    return first_output(graph, roll)


@plant("forward")
def norm_epsilon(graph: fx.Graph) -> int:
    """Add a thousandth where a norm adds less."""
    small = [n for n in calls(graph, aten.add) if isinstance(n.args[1], float) and n.args[1] < 1e-4]
    for node in small:
        node.update_arg(1, 1e-3)
    return len(small)


@plant("forward")
def relu_leaks(graph: fx.Graph) -> int:
    """Let a hundredth of negative numbers through every ReLU."""

    def leaking(node: fx.Node) -> fx.Node:
        negative = emit(graph, aten.minimum.default, node.args[0], node)
        return emit(graph, aten.add.Tensor, node, emit(graph, aten.mul.Tensor, negative, 0.01))

    return sum(put_after(graph, node, leaking) for node in calls(graph, aten.relu))


@plant("forward")
def product_in_low_precision(graph: fx.Graph) -> int:
    """Cut an operand of the last product to bfloat16."""
    found = calls(graph, aten.mm, aten.addmm, aten.convolution)[-1:]
    for node in found:
        at = 1 if node in calls(graph, aten.addmm) else 0
        with graph.inserting_before(node):
            node.update_arg(at, _rounded(graph, node.args[at]))
    return len(found)


# Gradients.


def _gradients(graph: fx.Graph, *, least: int, most: int) -> list[int]:
    """Return the positions of floating-point gradients with a number of dimensions."""
    return [
        index
        for index, node in enumerate(outputs(graph))
        if is_floating(node) and least <= value(node).dim() <= most
    ]


def _scale(graph: fx.Graph, positions: list[int], factor: float) -> int:
    return replace_outputs(graph, {index: scaled(graph, factor) for index in positions})


@plant("backward")
def last_gradient_zero(graph: fx.Graph) -> int:
    return _scale(graph, _gradients(graph, least=2, most=9)[-1:], 0.0)


@plant("backward")
def first_gradient_negated(graph: fx.Graph) -> int:
    return _scale(graph, _gradients(graph, least=2, most=9)[:1], -1.0)


@plant("backward")
def last_gradient_one_percent(graph: fx.Graph) -> int:
    return _scale(graph, _gradients(graph, least=2, most=9)[-1:], 1.01)


@plant("backward")
def all_gradients_halved(graph: fx.Graph) -> int:
    return _scale(graph, _gradients(graph, least=0, most=9), 0.5)


@plant("backward")
def vector_gradients_a_tenth_low(graph: fx.Graph) -> int:
    return _scale(graph, _gradients(graph, least=1, most=1), 0.9)


@plant("backward")
def saved_in_low_precision(graph: fx.Graph) -> int:
    """Cut what the forward saved, but for inputs and parameters."""
    saved = [
        node
        for node in graph.nodes
        if node.op == "placeholder"
        and is_floating(node)
        and value(node).dtype is torch.float32
        and not node.name.startswith(("primals", "tangents"))
    ]
    return sum(put_after(graph, node, lambda of: _rounded(graph, of)) for node in saved)


# State and layout.


@each_call
def memory_format_changed(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    outputs = list(compiled(*inputs))
    for index, output in enumerate(outputs):
        if isinstance(output, torch.Tensor) and output.is_floating_point() and output.dim() > 1:
            outputs[index] = output.mT.contiguous().mT
            break
    return tuple(outputs)


@plant("wrap")
def given_input_overwritten(seen: Frame, compiled: Compiled) -> Compiled:
    given = seen.given()
    if not given:
        return compiled

    def call(*inputs: Any) -> Any:
        outputs = compiled(*inputs)
        for index in given:
            inputs[index].data.view(-1)[0] += 0.01
        return outputs

    return call


@plant("wrap")
def a_parameter_drifts(seen: Frame, compiled: Compiled) -> Compiled:
    parameters = seen.parameters()[:1]
    if not parameters:
        return compiled

    def call(*inputs: Any) -> Any:
        outputs = compiled(*inputs)
        inputs[parameters[0]].data.mul_(1.0001)
        return outputs

    return call


# Sizes.


def _symbols(graph: fx.Graph) -> list[fx.Node]:
    """Return the placeholders of symbolic sizes."""
    return [
        node
        for node in graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.SymInt)
    ]


@plant("forward")
def divided_by_the_first_size(graph: fx.Graph) -> int:
    """Scale the output by the ratio of a size to the size that was compiled first."""
    symbols = _symbols(graph)[:1]

    def divided(node: fx.Node) -> fx.Node:
        size = emit(graph, aten.scalar_tensor.default, symbols[0], device=value(node).device)
        first = value(symbols[0]).node.hint
        ratio = emit(graph, aten.div.Tensor, size, float(first))
        changed = emit(graph, aten.mul.Tensor, node, ratio)
        return emit(graph, prims.convert_element_type.default, changed, value(node).dtype)

    return first_output(graph, divided) if symbols else 0


@plant("forward")
def later_rows_lost(graph: fx.Graph) -> int:
    """Return zeros in the rows beyond the number of rows that was compiled first."""

    def cut(node: fx.Node) -> fx.Node:
        rows = emit(graph, aten.sym_size.int, node, 0)
        within = _below(graph, node, rows, value(rows).node.hint)
        column = emit(graph, aten.reshape.default, within, [rows, *[1] * (value(node).dim() - 1)])
        return _masked(graph, node, column)

    floating = [node for node in outputs(graph) if is_floating(node)][:1]
    if not floating or not isinstance(value(floating[0]).shape[0], torch.SymInt):
        return 0
    return first_output(graph, cut)


# Capture and memory.


@plant("configure")
def products_not_captured() -> None:
    torch._dynamo.disallow_in_graph(torch.nn.functional.linear)
    torch._dynamo.disallow_in_graph(torch.nn.functional.conv2d)
    announce("set")


@plant("wrap")
def outputs_kept(seen: Frame, compiled: Compiled) -> Compiled:
    kept: list[torch.Tensor] = []

    def call(*inputs: Any) -> Any:
        outputs = compiled(*inputs)
        kept.extend(o.detach().clone() for o in outputs if isinstance(o, torch.Tensor))
        return outputs

    return call


@plant("wrap")
def memory_wasted(seen: Frame, compiled: Compiled) -> Compiled:
    """Hold four times the memory of the parameters and inputs of the graph during each call."""

    def call(*inputs: Any) -> Any:
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        held = max(4 * sum(t.numel() * t.element_size() for t in tensors), 2**25)
        block = torch.ones(held, dtype=torch.uint8, device=tensors[0].device)
        outputs = compiled(*inputs)
        del block
        return outputs

    return call
