"""Faults of gradients, and of precision under autocast."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd import runtime_wrappers
from torch._inductor import decomposition

from tests.faults.planting.hooks import Compiled, Frame, announce, frame, plant
from tests.faults.planting.surgery import (
    aten,
    calls,
    emit,
    first_output,
    is_floating,
    outputs,
    prims,
    put_after,
    replace_outputs,
    scaled,
    value,
)


def _scale(graph: fx.Graph, positions: list[int], factor: float) -> int:
    """Scale the gradients of some inputs of the frame. Gradients have the order of the inputs."""
    returned = outputs(graph)
    change = scaled(graph, factor)
    return replace_outputs(graph, {i: change for i in positions if is_floating(returned[i])})


def _of_parameters(graph: fx.Graph, fits: Callable[[torch.Tensor], bool]) -> list[int]:
    returned = outputs(graph)
    inputs = frame().inputs
    return [i for i in frame().parameters() if is_floating(returned[i]) and fits(inputs[i])]


@plant("wrap")
def saved_replaced(seen: Frame, compiled: Compiled) -> Compiled:
    saved: dict[Any, torch.Tensor] = {}

    def call(*inputs: Any) -> Any:
        count = itertools.count()

        def save(tensor: torch.Tensor) -> Any:
            place = next(count), tensor.shape
            saved[place] = tensor
            return place

        with torch.autograd.graph.saved_tensors_hooks(save, saved.__getitem__):
            return compiled(*inputs)

    return call


@plant("configure")
def layout_of_cotangents_assumed() -> None:
    right = runtime_wrappers.coerce_to_expected_memory_format

    def wrong(cotangent: torch.Tensor, expected: Any) -> torch.Tensor:
        announce("the backward reads a cotangent in the expected layout")
        wanted = right(torch.empty_like(cotangent), expected)
        return cotangent.as_strided(wanted.shape, wanted.stride())

    runtime_wrappers.coerce_to_expected_memory_format = wrong


@plant("backward")
def one_gradient_zero(graph: fx.Graph) -> int:
    return _scale(graph, _of_parameters(graph, lambda p: p.dim() > 1)[-1:], 0.0)


@plant("backward")
def one_gradient_negated(graph: fx.Graph) -> int:
    return _scale(graph, _of_parameters(graph, lambda p: p.dim() > 1)[:1], -1.0)


@plant("backward")
def one_gradient_one_percent(graph: fx.Graph) -> int:
    return _scale(graph, _of_parameters(graph, lambda p: p.dim() > 1)[:1], 1.01)


@plant("backward")
def gradients_halved(graph: fx.Graph) -> int:
    return _scale(graph, list(range(len(outputs(graph)))), 0.5)


@plant("backward")
def gradients_of_vectors(graph: fx.Graph) -> int:
    return _scale(graph, _of_parameters(graph, lambda p: p.dim() == 1), 0.9)


@plant("backward")
def input_gradient_zero(graph: fx.Graph) -> int:
    return _scale(graph, frame().given(), 0.0)


@plant("configure")
def gelu_backward_approximated() -> None:
    table = decomposition.decompositions
    right = table[aten.gelu_backward.default]

    def wrong(gradient: torch.Tensor, x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
        announce("a GELU's backward is decomposed")
        return right(gradient, x, approximate="tanh")

    table[aten.gelu_backward.default] = wrong


# Faults under autocast.


def _low(graph: fx.Graph, node: fx.Node, dtype: torch.dtype = torch.bfloat16) -> fx.Node:
    return emit(graph, prims.convert_element_type.default, node, dtype)


@plant("forward")
def norm_in_low_precision(graph: fx.Graph) -> int:
    """Compute the variance as mean square minus squared mean, both rounded to bfloat16."""
    changed = 0
    for node in calls(graph, aten.var_mean):
        x, dims = node.args[:2]
        variance = next(user for user in node.users if user.args[1] == 0)

        def rounded(_: fx.Node, x: fx.Node = x, dims: list[int] = dims) -> fx.Node:
            square = emit(graph, aten.mul.Tensor, x, x)
            of_square, mean = (
                _low(graph, _low(graph, emit(graph, aten.mean.dim, of, dims, True)), torch.float32)
                for of in (square, x)
            )
            squared = _low(
                graph, _low(graph, emit(graph, aten.mul.Tensor, mean, mean)), torch.float32
            )
            return emit(graph, aten.sub.Tensor, of_square, squared)

        changed += put_after(graph, variance, rounded)
    return changed


@plant("forward")
def norm_statistics_rounded(graph: fx.Graph) -> int:
    """Round as a kernel would that stores statistics in the dtype of its input."""
    users = [user for node in calls(graph, aten.var_mean) for user in node.users]
    statistics = [*(user for user in users if user.args[1] == 1), *calls(graph, aten.rsqrt)]

    def rounded(node: fx.Node) -> fx.Node:
        return _low(graph, _low(graph, node), torch.float32)

    return sum(put_after(graph, node, rounded) for node in statistics)


@plant("forward")
def autocast_left_late(graph: fx.Graph) -> int:
    """Compute tanh in bfloat16 where a region without autocast computes it in float32."""
    found = [node for node in calls(graph, aten.tanh) if value(node).dtype is torch.float32]

    def in_low_precision(node: fx.Node) -> fx.Node:
        low = emit(graph, aten.tanh.default, _low(graph, node.args[0]))
        return _low(graph, low, torch.float32)

    return sum(put_after(graph, node, in_low_precision) for node in found)


@plant("forward")
def halves_summed_in_low_precision(graph: fx.Graph) -> int:
    """Compute a matrix product in two halves, and round each before their sum."""
    found = [n for n in calls(graph, aten.mm, aten.addmm) if value(n).dtype.itemsize == 2]
    return _in_blocks(graph, found, lambda width: -(-width // 2))


@plant("forward")
def some_rows_scaled(graph: fx.Graph) -> int:
    """Make every eighth row of the output half a per cent too large."""

    def scale(node: fx.Node) -> fx.Node:
        rows = emit(graph, aten.sym_size.int, node, 0)
        index = emit(graph, aten.arange.start_step, 0, rows, 1, device=value(node).device)
        chosen = emit(graph, aten.eq.Scalar, emit(graph, aten.remainder.Scalar, index, 8), 3)
        for _ in value(node).shape[1:]:
            chosen = emit(graph, aten.unsqueeze.default, chosen, -1)
        wide = _low(graph, node, torch.float32)
        larger = _low(graph, emit(graph, aten.mul.Tensor, wide, 1.005), value(node).dtype)
        return emit(graph, aten.where.self, chosen, larger, node)

    return first_output(graph, scale)


@plant("forward")
def output_dtype(graph: fx.Graph) -> int:
    def other(node: fx.Node) -> fx.Node:
        to = torch.bfloat16 if value(node).dtype is torch.float32 else torch.float32
        return _low(graph, node, to)

    return first_output(graph, other)


@plant("forward")
def accumulated_in_low_precision(graph: fx.Graph) -> int:
    """Compute a matrix product eight columns at a time, and round after each."""
    found = [n for n in calls(graph, aten.mm, aten.addmm) if value(n).dtype is torch.bfloat16]
    return _in_blocks(graph, found, lambda width: 8)


def _in_blocks(graph: fx.Graph, products: list[fx.Node], block_of: Callable[[int], int]) -> int:
    def summed(node: fx.Node) -> fx.Node:
        *bias, left, right = node.args
        total = None
        width = value(left).shape[1]
        block = block_of(width)
        for start in range(0, width, block):
            end = min(start + block, width)
            a = emit(graph, aten.slice.Tensor, left, 1, start, end)
            b = emit(graph, aten.slice.Tensor, right, 0, start, end)
            part = emit(graph, aten.mm.default, a, b)
            total = part if total is None else emit(graph, aten.add.Tensor, total, part)
        return emit(graph, aten.add.Tensor, total, bias[0]) if bias else total

    return sum(put_after(graph, node, summed) for node in products)
