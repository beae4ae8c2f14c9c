"""Functions that find nodes in a graph of ATen operators and replace them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.node import map_arg

aten = torch.ops.aten
prims = torch.ops.prims


def calls(graph: fx.Graph, *operators: Any) -> list[fx.Node]:
    """Return the nodes that call any overload of these operators."""
    return [node for node in graph.nodes if node.op == "call_function" and _is(node, operators)]


def _is(node: fx.Node, operators: tuple[Any, ...]) -> bool:
    packet = getattr(node.target, "overloadpacket", None)
    return node.target in operators or (packet is not None and packet in operators)


def value(node: Any) -> Any:
    """Return the fake tensor or symbolic number of a node, and any other object unchanged."""
    return node.meta["val"] if isinstance(node, fx.Node) else node


def emit(graph: fx.Graph, operator: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """Insert a call at the insertion point, and compute its fake value."""
    node = graph.call_function(operator, args, kwargs)
    with _fake_mode(graph):  # for an operator without tensors, too
        node.meta["val"] = operator(*map_arg(args, value), **map_arg(kwargs, value))
    return node


def added_to_one(graph: fx.Graph, node: fx.Node, amount: float) -> fx.Node:
    """Insert an addition to the second element of each dimension, or to the only one."""
    seen, indices = value(node), []
    for size in seen.shape:
        only = isinstance(size, int) and size == 1  # the batch, in a probing call
        place = 0 if only else 1
        full = emit(graph, aten.full.default, [1], place, dtype=torch.int64, device=seen.device)
        indices.append(full)
    more = emit(graph, aten.full.default, [1], amount, dtype=seen.dtype, device=seen.device)
    return emit(graph, aten.index_put.default, node, indices, more, True)


def _fake_mode(graph: fx.Graph) -> FakeTensorMode:
    """Return the mode of the graph's fake tensors."""
    values = (node.meta.get("val") for node in graph.nodes)
    return next(seen.fake_mode for seen in values if isinstance(seen, FakeTensor))


def put_after(
    graph: fx.Graph,
    node: fx.Node,
    make: Callable[[fx.Node], fx.Node],
    *,
    users: Callable[[fx.Node], bool] = lambda user: True,
) -> int:
    """Make a new node from a node, let its users use that, and return the number of users."""
    changed = [user for user in node.users if users(user)]
    place = node.next
    while place.op == "placeholder":
        place = place.next
    with graph.inserting_before(place):
        new = make(node)
    for user in changed:
        user.replace_input_with(node, new)
    return len(changed)


def output(graph: fx.Graph) -> fx.Node:
    """Return the output node."""
    return next(node for node in reversed(graph.nodes) if node.op == "output")


def outputs(graph: fx.Graph) -> list[Any]:
    """Return the nodes that the graph returns, in order."""
    (returned,) = output(graph).args
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def replace_outputs(graph: fx.Graph, make: dict[int, Callable[[fx.Node], fx.Node]]) -> int:
    """Replace what the graph returns at some positions, and return the number of positions."""
    returned, node = outputs(graph), output(graph)
    with graph.inserting_before(node):
        for index, change in make.items():
            returned[index] = change(returned[index])
    node.args = (tuple(returned),)
    return len(make)


def is_floating(node: Any) -> bool:
    """Return whether a node is a floating-point tensor."""
    if not isinstance(node, fx.Node):
        return False
    seen = node.meta.get("val")
    return isinstance(seen, torch.Tensor) and seen.is_floating_point()


def first_output(graph: fx.Graph, make: Callable[[fx.Node], fx.Node]) -> int:
    """Replace the first floating-point output, and return 1, or 0 if there is none."""
    for index, node in enumerate(outputs(graph)):
        if is_floating(node):
            return replace_outputs(graph, {index: make})
    return 0


def scaled(graph: fx.Graph, factor: float) -> Callable[[fx.Node], fx.Node]:
    """Return a function that makes a node times a factor."""
    return lambda node: emit(graph, aten.mul.Tensor, node, factor)


def rolled(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """Emit a tensor whose last dimension is rolled by one."""
    last = value(node).dim() - 1
    size = value(node).shape[last]
    end = emit(graph, aten.slice.Tensor, node, last, size - 1, size)
    start = emit(graph, aten.slice.Tensor, node, last, 0, size - 1)
    return emit(graph, aten.cat.default, [end, start], last)
