"""Faults of a single slice: of one channel, one head, one time step or one filter of many."""

from __future__ import annotations

import torch
from torch import fx

from tests.faults.planting.hooks import plant
from tests.faults.planting.surgery import (
    aten,
    emit,
    first_output,
    is_floating,
    outputs,
    prims,
    replace_outputs,
    value,
)

#: The index of the slice that is wrong.
_WRONG = 3


def _plus(
    graph: fx.Graph, node: fx.Node, dimension: int, amount: fx.Node | float, share: float
) -> fx.Node:
    """Add a share of an amount to one slice, and round once."""
    seen = value(node)
    options = {"dtype": torch.int64, "device": seen.device, "requires_grad": False}
    size = seen.shape[dimension]
    index = emit(graph, prims.iota.default, size, start=0, step=1, **options)
    chosen = emit(graph, aten.eq.Scalar, index, _WRONG)
    chosen = emit(graph, aten.reshape.default, chosen, [-1, *[1] * (seen.dim() - 1 - dimension)])
    wide = emit(graph, prims.convert_element_type.default, node, torch.float32)
    if isinstance(amount, fx.Node):
        amount = emit(graph, prims.convert_element_type.default, amount, torch.float32)
        more = emit(graph, aten.mul.Tensor, amount, share)
        changed = emit(graph, aten.add.Tensor, wide, more)
    else:
        changed = emit(graph, aten.add.Scalar, wide, amount * share)
    rounded = emit(graph, prims.convert_element_type.default, changed, seen.dtype)
    return emit(graph, aten.where.self, chosen, rounded, node)


@plant("forward")
def one_channel_scaled(graph: fx.Graph) -> int:
    """Make a channel one per cent too large."""
    return first_output(graph, lambda node: _plus(graph, node, 1, node, 0.01))


@plant("forward")
def one_channel_shifted(graph: fx.Graph) -> int:
    """Add a hundredth to a channel, as a wrong bias does."""
    return first_output(graph, lambda node: _plus(graph, node, 1, 1.0, 0.01))


@plant("forward")
def one_step_mixed(graph: fx.Graph) -> int:
    """Add a little of the next time step to one time step of every row."""

    def wrong(node: fx.Node) -> fx.Node:
        length = value(node).shape[1]
        later = emit(graph, aten.slice.Tensor, node, 1, 1, length)
        first = emit(graph, aten.slice.Tensor, node, 1, 0, 1)
        following = emit(graph, aten.cat.default, [later, first], 1)
        return _plus(graph, node, 1, following, 0.02)

    return first_output(graph, wrong)


@plant("backward")
def one_filter_scaled(graph: fx.Graph) -> int:
    """Make the gradient of one filter of each convolution three per cent too large."""
    found = [
        index
        for index, node in enumerate(outputs(graph))
        if is_floating(node) and value(node).dim() == 4 and value(node).shape[0] > _WRONG
    ]
    return replace_outputs(
        graph, {index: lambda node: _plus(graph, node, 0, node, 0.03) for index in found}
    )
