"""The operators of the graphs that Inductor receives, each with the line of code that calls it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._inductor.decomposition import select_decomp_table
from torch.utils import _pytree as pytree

from compilegate.observe.capture import compile_log
from compilegate.observe.dissect.graph import source_of
from compilegate.observe.model.forward import setting
from compilegate.records.case import Case
from compilegate.zoo.example import Call


def called(run: Any, call: Call, case: Case, *, with_grad: bool) -> list[dict[str, str]]:
    """Return the operators that a call and its backward compute, in the order of the graphs.

    Each has its own name, that of the operator that it was decomposed from, and the line of the
    user's code that calls that. A graph that cannot be captured ends the list.

    Args:
        run: The module or function.
        call: Its arguments.
        case: The setting.
        with_grad: Whether grad mode is on in *infer*, too.
    """
    found: list[dict[str, str]] = []

    def keep(graph: fx.GraphModule, _: Any) -> Any:
        found.extend(_operators(graph))
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=keep, bw_compiler=keep, decompositions=select_decomp_table())
    compile_log.reset()
    try:
        compiled: Any = torch.compile(run, backend=backend, dynamic=False)
        with setting(case, None, with_grad=with_grad):
            made = compiled(*call.args, **call.kwargs)
        _backward(made)
    except Exception:
        return found
    finally:
        compile_log.reset()
    return found


def _operators(graph: fx.GraphModule) -> Iterator[dict[str, str]]:
    for node in graph.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            decomposed = node.meta.get("original_aten") or node.target
            yield {"name": _name(node.target), "of": _name(decomposed), "source": source_of(node)}


def _name(operator: torch._ops.OpOverload) -> str:
    return str(operator.overloadpacket.__name__)


def _backward(made: Any) -> None:
    """Compute gradients, so that their graphs are captured."""
    leaves = [leaf for leaf in pytree.tree_leaves(made) if isinstance(leaf, torch.Tensor)]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, [torch.ones_like(leaf) for leaf in wanted])
