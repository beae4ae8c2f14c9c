"""Faults of random numbers, with ``fallback_random`` and with Inductor's own draws.

With ``fallback_random``, compiled code draws as eager does, and dropout is one operator. Otherwise
dropout compares random numbers with its rate and multiplies by the result.
"""

from __future__ import annotations

from typing import Any

import torch
import torch._inductor.config
from torch import fx

from tests.faults.planting.hooks import Compiled, Frame, plant
from tests.faults.planting.state import each_call
from tests.faults.planting.surgery import aten, calls, emit, put_after, scaled, value


def _draws_its_own() -> bool:
    return not torch._inductor.config.fallback_random


def _masks(graph: fx.Graph) -> list[fx.Node]:
    """Return the nodes that compare random numbers with a dropout rate."""
    return [node for node in calls(graph, aten.gt) if isinstance(node.args[1], float)]


def _generator(inputs: list[Any]) -> torch.Generator:
    """Return the default generator of the device of a graph's inputs."""
    device = next(i.device for i in inputs if isinstance(i, torch.Tensor))
    if device.type == "cpu":
        return torch.default_generator
    return torch.cuda.default_generators[device.index]


@each_call
def dropout_frozen(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    generator = _generator(inputs)
    generator.set_state(memory.setdefault("state", generator.get_state()))
    return compiled(*inputs)


@each_call
def generator_put_back(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    generator = _generator(inputs)
    before = generator.get_state()
    outputs = compiled(*inputs)
    generator.set_state(before)
    return outputs


@plant("forward")
def dropout_lost(graph: fx.Graph) -> int:
    found = calls(graph, aten.native_dropout)
    for node in found:
        node.update_arg(1, 0.0)
    masks = _masks(graph)
    for node in masks:
        node.update_arg(1, -1.0)
    return len(found) + len(masks)


@plant("forward")
def dropout_not_rescaled(graph: fx.Graph) -> int:
    changed = 0
    for node in calls(graph, aten.native_dropout):
        for part in list(node.users):
            if part.args[1] == 0:
                changed += put_after(graph, part, scaled(graph, 1.0 - node.args[1]))
    for mask in _masks(graph):
        for masked in list(mask.users):
            for product in list(masked.users):
                if product.target is aten.mul.Tensor and isinstance(product.args[1], float):
                    product.update_arg(1, 1.0)
                    changed += 1
    return changed


# Faults that show only in Inductor's own draws.


@each_call
def own_draws_not_counted(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    generator = _generator(inputs)
    before = generator.get_state()
    outputs = compiled(*inputs)
    if _draws_its_own():
        generator.set_state(before)
    return outputs


@each_call
def seed_not_heeded(seen: Frame, compiled: Compiled, inputs: list[Any], memory: Any) -> Any:
    if not _draws_its_own():
        return compiled(*inputs)
    generator = _generator(inputs)
    users = generator.get_state()
    generator.set_state(memory.get("own", users))
    outputs = compiled(*inputs)
    memory["own"] = generator.get_state()
    generator.set_state(users)
    torch.rand(1, generator=generator, device=generator.device)  # it advances anyway
    return outputs


@plant("forward")
def dropout_rate(graph: fx.Graph) -> int | None:
    return _dropping(graph, 0.5)


@plant("forward")
def dropout_rate_a_fifth_higher(graph: fx.Graph) -> int | None:
    return _dropping(graph, 1.2)


def _dropping(graph: fx.Graph, factor: float) -> int | None:
    if not _draws_its_own():
        return None
    masks = _masks(graph)
    for node in masks:
        node.update_arg(1, node.args[1] * factor)
    return len(masks)


@plant("forward")
def dropout_rate_a_tenth_higher(graph: fx.Graph) -> int | None:
    """Change the masks alone: their scale stays that of the true rate."""
    return _dropping(graph, 1.1)


@plant("forward")
def bound_of_integers_one_too_low(graph: fx.Graph) -> int | None:
    if not _draws_its_own():
        return None
    found = calls(graph, aten.randint)
    for node in found:
        bound = next(at for at, given in enumerate(node.args) if given == 100)
        node.update_arg(bound, 99)
    return len(found)


@plant("forward")
def normal_noise_cut_off(graph: fx.Graph) -> int | None:
    """Draw no number beyond two and a quarter standard deviations."""
    if not _draws_its_own():
        return None
    found = calls(graph, aten.randn, aten.randn_like)
    return sum(
        put_after(graph, node, lambda n: emit(graph, aten.clamp.default, n, -2.25, 2.25))
        for node in found
    )


@plant("forward")
def mask_shared_by_rows(graph: fx.Graph) -> int | None:
    if not _draws_its_own():
        return None

    def first_row(mask: fx.Node) -> fx.Node:
        row = emit(graph, aten.slice.Tensor, mask, 0, 0, 1)
        return emit(graph, aten.expand.default, row, list(value(mask).shape))

    return sum(put_after(graph, mask, first_row) for mask in _masks(graph))


@plant("forward")
def mask_shared_by_neighbours(graph: fx.Graph) -> int | None:
    if not _draws_its_own():
        return None

    def from_the_left(mask: fx.Node) -> fx.Node:
        half = emit(graph, aten.slice.Tensor, mask, -1, 0, None, 2)
        twice = emit(graph, aten.stack.default, [half, half], -1)
        return emit(graph, aten.reshape.default, twice, list(value(mask).shape))

    even = [mask for mask in _masks(graph) if value(mask).shape[-1] % 2 == 0]
    return sum(put_after(graph, mask, from_the_left) for mask in even)


@plant("forward")
def mask_shared_by_layers(graph: fx.Graph) -> int | None:
    if not _draws_its_own():
        return None
    first_of: dict[Any, fx.Node] = {}
    changed = 0
    for mask in _masks(graph):
        first = first_of.setdefault(value(mask).shape, mask)
        if first is not mask:
            mask.replace_all_uses_with(first)
            changed += 1
    return changed


@plant("backward")
def another_mask_in_backward(graph: fx.Graph) -> int | None:
    if not _draws_its_own():
        return None
    masks = [
        node
        for node in graph.nodes
        if node.op == "placeholder" and getattr(value(node), "dtype", None) is torch.bool
    ]
    return sum(
        put_after(graph, mask, lambda node: emit(graph, aten.logical_not.default, node))
        for mask in masks
    )
