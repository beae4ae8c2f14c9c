"""Tools to change a graph of ATen operators: find nodes, put others in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_arg

aten = torch.ops.aten
prims = torch.ops.prims


def calls(graph: fx.Graph, *operators: Any) -> list[fx.Node]:
    """The nodes that call one of these operators, whichever overload."""
    return [node for node in graph.nodes if node.op == "call_function" and _is(node, operators)]


def _is(node: fx.Node, operators: tuple[Any, ...]) -> bool:
    packet = getattr(node.target, "overloadpacket", None)
    return node.target in operators or (packet is not None and packet in operators)


def value(node: Any) -> Any:
    """What a node stands for: a fake tensor or a symbolic number. Anything else is itself."""
    return node.meta["val"] if isinstance(node, fx.Node) else node


def emit(graph: fx.Graph, operator: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A new call at the insertion point, with its fake value."""
    node = graph.call_function(operator, args, kwargs)
    node.meta["val"] = operator(*map_arg(args, value), **map_arg(kwargs, value))
    return node


def put_after(
    graph: fx.Graph,
    node: fx.Node,
    make: Callable[[fx.Node], fx.Node],
    *,
    users: Callable[[fx.Node], bool] = lambda user: True,
) -> int:
    """Give what uses a node something made of it instead; how many users that were."""
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
    """The output node."""
    return next(node for node in reversed(graph.nodes) if node.op == "output")


def outputs(graph: fx.Graph) -> list[Any]:
    """What the graph returns, in order."""
    (returned,) = output(graph).args
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def replace_outputs(graph: fx.Graph, make: dict[int, Callable[[fx.Node], fx.Node]]) -> int:
    """Return something made of what the graph returns at some positions; how many they are."""
    returned, node = outputs(graph), output(graph)
    with graph.inserting_before(node):
        for index, change in make.items():
            returned[index] = change(returned[index])
    node.args = (tuple(returned),)
    return len(make)


def is_floating(node: Any) -> bool:
    """Whether a node is a floating tensor."""
    if not isinstance(node, fx.Node):
        return False
    seen = node.meta.get("val")
    return isinstance(seen, torch.Tensor) and seen.is_floating_point()


def first_output(graph: fx.Graph, make: Callable[[fx.Node], fx.Node]) -> int:
    """Change the first floating output, the user's."""
    for index, node in enumerate(outputs(graph)):
        if is_floating(node):
            return replace_outputs(graph, {index: make})
    return 0


def scaled(graph: fx.Graph, factor: float) -> Callable[[fx.Node], fx.Node]:
    """Makes of a node the node times a factor."""
    return lambda node: emit(graph, aten.mul.Tensor, node, factor)
