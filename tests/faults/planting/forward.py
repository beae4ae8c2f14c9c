"""Faults of values: compiled code returns numbers that are slightly wrong."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import torch
import torch._inductor.config
from torch import fx
from torch._inductor import decomposition

from tests.faults.planting.hooks import announce, plant
from tests.faults.planting.surgery import (
    added_to_one,
    aten,
    calls,
    emit,
    first_output,
    is_floating,
    prims,
    put_after,
    rolled,
    scaled,
    value,
)


def _at_one_element(graph: fx.Graph, amount: float) -> int:
    return first_output(graph, lambda node: added_to_one(graph, node, amount))


def _set_argument(node: fx.Node, index: int, new: Any) -> int:
    node.update_arg(index, new)
    return 1


@plant("forward")
def one_element(graph: fx.Graph) -> int:
    return _at_one_element(graph, 0.01)


@plant("forward")
def one_nan(graph: fx.Graph) -> int:
    return _at_one_element(graph, math.nan)


@plant("forward")
def one_percent(graph: fx.Graph) -> int:
    return first_output(graph, scaled(graph, 1.01))


@plant("forward")
def a_third_percent(graph: fx.Graph) -> int:
    found = calls(graph, aten.mm, aten.addmm, aten.convolution)
    return put_after(graph, found[0], scaled(graph, 1.003)) if found else 0


@plant("forward")
def constant_changed(graph: fx.Graph) -> int:
    for node in calls(graph, aten.mul):
        if isinstance(node.args[1], float) and node.args[1] % 0.5:
            return _set_argument(node, 1, node.args[1] * 1.002)
    return 0


def _epsilon(graph: fx.Graph, *, batch: bool) -> int:
    changed = 0
    for node in calls(graph, aten.add):
        epsilon = node.args[1]
        of = node.args[0]
        if isinstance(epsilon, float) and epsilon < 1e-4 and isinstance(of, fx.Node):
            own = of.target is operator.getitem  # the variance of this very input
            changed += _set_argument(node, 1, 1e-3) if own != batch else 0
    return changed


@plant("forward")
def layer_norm_epsilon(graph: fx.Graph) -> int:
    return _epsilon(graph, batch=False)


@plant("forward")
def batch_norm_epsilon(graph: fx.Graph) -> int:
    return _epsilon(graph, batch=True)


@plant("forward")
def bias_lost(graph: fx.Graph) -> int:
    found = calls(graph, aten.addmm)
    if not found:
        return 0
    _, *factors = found[-1].args
    return put_after(graph, found[-1], lambda node: emit(graph, aten.mm.default, *factors))


@plant("forward")
def residual_lost(graph: fx.Graph) -> int:
    for node in reversed(calls(graph, aten.add)):
        if all(map(is_floating, node.args)):
            x, y = (arg for arg in node.args if isinstance(arg, fx.Node))
            if value(x).shape == value(y).shape and value(x).dim() > 1:
                node.replace_all_uses_with(y)
                return 1
    return 0


@plant("forward")
def shifted_by_one(graph: fx.Graph) -> int:
    found = calls(graph, aten.convolution)
    return put_after(graph, found[0], functools.partial(rolled, graph)) if found else 0


@plant("forward")
def bound_halved(graph: fx.Graph) -> int:
    return sum(
        _set_argument(node, 1, node.args[1] / 2)
        for node in calls(graph, aten.clamp_max)
        if isinstance(node.args[1], (int, float))
    )


@plant("forward")
def index_off_by_one(graph: fx.Graph) -> int:
    found = calls(graph, aten.argmax)
    return sum(
        put_after(graph, node, lambda index: emit(graph, aten.add.Tensor, index, 1))
        for node in found
    )


@plant("forward")
def softmax_without_maximum(graph: fx.Graph) -> int:
    changed = 0
    for node in calls(graph, aten.sub):
        x, subtracted = node.args
        if isinstance(subtracted, fx.Node) and subtracted in calls(graph, aten.amax):
            node.replace_all_uses_with(x)
            changed += 1
    return changed


@plant("forward")
def softmax_over_rows(graph: fx.Graph) -> int:
    changed = 0
    for node in calls(graph, aten.sum):
        if isinstance(node.args[0], fx.Node) and node.args[0] in calls(graph, aten.exp):
            changed += _set_argument(node, 1, [-2])
            node.meta["val"] = node.target(*(value(arg) for arg in node.args))
    return changed


@plant("forward")
def mean_count_off_by_one(graph: fx.Graph) -> int:
    def smaller(node: fx.Node) -> fx.Node:
        counted, dims = value(node.args[0]), node.args[1]
        count = math.prod(int(counted.shape[dim]) for dim in dims)
        return emit(graph, aten.mul.Tensor, node, count / (count + 1))

    return sum(put_after(graph, node, smaller) for node in calls(graph, aten.mean))


@plant("forward")
def embedding_off_by_one(graph: fx.Graph) -> int:
    found = calls(graph, aten.embedding)[:1]
    for node in found:
        weight, index = node.args[:2]
        with graph.inserting_before(node):
            after = emit(graph, aten.add.Tensor, index, 1)
            wrapped = emit(graph, aten.remainder.Scalar, after, value(weight).shape[0])
        node.update_arg(1, wrapped)
    return len(found)


def _attentions(graph: fx.Graph) -> list[fx.Node]:
    return calls(
        graph,
        aten._scaled_dot_product_flash_attention_for_cpu,
        aten._scaled_dot_product_flash_attention,
        aten._scaled_dot_product_efficient_attention,
        aten._scaled_dot_product_cudnn_attention,
    )


@plant("forward")
def attention_mask_lost(graph: fx.Graph) -> int:
    changed = 0
    for node in _attentions(graph):
        names = [argument.name for argument in node.target._schema.arguments]
        causal = names.index("is_causal")
        if len(node.args) > causal and node.args[causal]:
            changed += _set_argument(node, causal, False)
        elif node.kwargs.get("attn_mask") is not None:
            node.update_kwarg("attn_mask", None)
            changed += 1
        elif "attn_bias" in names and node.args[names.index("attn_bias")] is not None:
            changed += _set_argument(node, names.index("attn_bias"), None)
    return changed


@plant("forward")
def attention_scale(graph: fx.Graph) -> int:
    found = _attentions(graph)
    for node in found:
        right = node.kwargs.get("scale") or 1 / math.sqrt(value(node.args[0]).shape[-1])
        node.update_kwarg("scale", 1.05 * right)
    return len(found)


@plant("forward")
def matmul_in_bfloat16(graph: fx.Graph) -> int:
    found = calls(graph, aten.mm, aten.addmm, aten.convolution)[-1:]
    for node in found:
        at = 1 if node in calls(graph, aten.addmm) else 0
        with graph.inserting_before(node):
            low = emit(graph, prims.convert_element_type.default, node.args[at], torch.bfloat16)
            back = emit(graph, prims.convert_element_type.default, low, torch.float32)
        node.update_arg(at, back)
    return len(found)


# Faults outside the graph.


@plant("configure")
def gelu_approximated() -> None:
    table = decomposition.decompositions
    right = table[aten.gelu.default]

    def wrong(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
        announce("a GELU is decomposed")
        return right(x, approximate="tanh")

    table[aten.gelu.default] = wrong


@plant("configure")
def relu_bug() -> None:
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
    torch._inductor.config.cpp.simdlen = 1  # vectorized code does not have this bug
    torch._inductor.config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"
    announce("set")


@plant("forward")
def last_of_a_cat_halved(graph: fx.Graph) -> int:
    return sum(
        put_after(
            graph, cat.args[0][-1], scaled(graph, 0.5), users=lambda user, cat=cat: user is cat
        )
        for cat in calls(graph, aten.cat)
    )
