"""Faults of state between calls, and of the metadata of output tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from tests.faults.planting.hooks import Compiled, Frame, plant
from tests.faults.planting.surgery import (
    aten,
    calls,
    emit,
    is_floating,
)


def each_call(function: Any) -> Any:
    """Plant ``function(frame, compiled, inputs, memory)`` in place of the compiled code.

    ``memory`` is a dictionary that lives as long as the compiled code.
    """

    def wrap(seen: Frame, compiled: Compiled) -> Compiled:
        memory: dict[Any, Any] = {}

        def call(*inputs: Any) -> Any:
            return function(seen, compiled, list(inputs), memory)

        return call

    plant("wrap", function.__name__)(wrap)
    return function


def _first_changed(outputs: Any, change: Any) -> tuple[Any, ...]:
    """Return the outputs with the first floating-point tensor changed."""
    changed = list(outputs)
    at = next(
        i for i, o in enumerate(changed) if isinstance(o, torch.Tensor) and o.is_floating_point()
    )
    changed[at] = change(changed[at])
    return tuple(changed)


# Metadata of tensors.


@each_call
def stride_changed(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    return _first_changed(compiled(*inputs), lambda y: y.mT.contiguous().mT)


@each_call
def shape_broadcastable(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    return _first_changed(compiled(*inputs), lambda y: y.unsqueeze(0))


@each_call
def requires_grad_lost(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    return _first_changed(compiled(*inputs), torch.Tensor.detach)


@each_call
def alias_lost(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    return tuple(output.clone() for output in compiled(*inputs))


@each_call
def alias_added(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    first, *others = compiled(*inputs)
    return (first, *(first if torch.equal(first, other) else other for other in others))


# State.


def _updates(graph: fx.Graph) -> list[fx.Node]:
    """Return the nodes that copy new values into inputs and buffers."""
    return [node for node in calls(graph, aten.copy_) if node.args[0].op == "placeholder"]


@plant("forward")
def statistics_lost(graph: fx.Graph) -> int:
    lost = [node for node in _updates(graph) if is_floating(node.args[0])]
    for node in lost:
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)
    return len(lost)


plant("forward", "mutation_lost")(statistics_lost)


@plant("forward")
def statistics_updated_twice(graph: fx.Graph) -> int:
    updates = [node for node in _updates(graph) if is_floating(node.args[0])]
    for node in updates:
        old, new = node.args
        with graph.inserting_before(node):
            step = emit(graph, aten.sub.Tensor, new, old)
            again = emit(graph, aten.add.Tensor, new, step, alpha=0.9)  # momentum 0.1
        node.update_arg(1, again)
    return len(updates)


@plant("forward")
def counter_twice(graph: fx.Graph) -> int:
    updates = [node for node in _updates(graph) if not is_floating(node.args[0])]
    for node in updates:
        with graph.inserting_before(node):
            node.update_arg(1, emit(graph, aten.add.Tensor, node.args[1], 1))
    return len(updates)


@each_call
def input_overwritten(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    outputs = compiled(*inputs)
    for index in seen.given():
        given = inputs[index].data
        given[tuple(slice(1) for _ in given.shape)] += 0.01  # an empty batch has no element
    return outputs


@each_call
def parameter_overwritten(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    outputs = compiled(*inputs)
    inputs[seen.parameters()[0]].data.mul_(1.0001)
    return outputs


@each_call
def parameter_moved(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    parameter = inputs[seen.parameters()[0]]
    parameter.data = parameter.data.clone()
    return compiled(*inputs)


@each_call
def stale_result(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    outputs = compiled(*inputs)
    return tuple(o.clone() for o in memory.setdefault("first", [o.clone() for o in outputs]))


@each_call
def weights_baked_in(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    for index in seen.parameters():
        first = memory.setdefault(index, inputs[index].detach().clone())
        inputs[index] = inputs[index] + (first - inputs[index].detach())  # gradients still arrive
    return compiled(*inputs)


@each_call
def buffer_reused(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    outputs = compiled(*inputs)
    kept = memory.setdefault("first", outputs)
    for buffer, output in zip(kept, outputs, strict=True):
        buffer.data.copy_(output)
    return kept
