"""Which repeated blocks of a model are alike, so that one compilation serves them all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import nn

from compilegate.observe import nested

#: Attributes by the path of the submodule and the name: what Dynamo may guard on.
Attributes = dict[tuple[str, str], tuple[Any, ...]]

_SCALARS = (bool, int, float, str, type(None))


def kinds(blocks: Sequence[nn.Module], call: Callable[[], object]) -> tuple[int, ...]:
    """Return a number for each block that is the same for blocks that are alike.

    Blocks are alike if classes, attributes and the shapes of parameters agree, and if they receive
    inputs of the same shapes. An attribute that numbers the blocks is no difference: compiled code
    needs it only where the block computes with its own number.

    Args:
        blocks: The blocks, in order.
        call: Calls the model in eager.
    """
    received = _inputs(blocks, call)
    attributes = [_attributes(block) for block in blocks]
    numbering = _numbering(attributes)
    signatures = [
        (frozenset((key, value) for key, value in one.items() if key not in numbering), inputs)
        for one, inputs in zip(attributes, received, strict=True)
    ]
    first = {signature: index for index, signature in reversed([*enumerate(signatures)])}
    return tuple(first[signature] for signature in signatures)


def _inputs(blocks: Sequence[nn.Module], call: Callable[[], object]) -> list[Hashable]:
    """Return what describes the inputs of each block in a call."""
    seen: dict[nn.Module, Hashable] = {}

    def note(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves = [*nested.leaves(args, "input"), *nested.leaves(kwargs, "input")]
        seen[block] = tuple((path, _described(leaf)) for path, leaf in leaves)

    hooks = [block.register_forward_pre_hook(note, with_kwargs=True) for block in blocks]
    try:
        call()
    finally:
        for hook in hooks:
            hook.remove()
    return [seen.get(block) for block in blocks]


def _attributes(block: nn.Module) -> Attributes:
    """Return the class, the plain attributes and the tensors of each part of a block."""
    found: Attributes = {}
    for path, part in block.named_modules():
        found[path, "class"] = (type(part),)
        plain = {n: v for n, v in vars(part).items() if isinstance(v, _SCALARS)}
        found |= {(path, name): (type(value), value) for name, value in plain.items()}
        tensors = (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False))
        found |= {(path, name): _described(tensor) for name, tensor in tensors}
    return found


def _numbering(attributes: Sequence[Attributes]) -> set[tuple[str, str]]:
    """Return the attributes whose values count from block to block: ``layer_idx``."""
    first = attributes[0] if attributes else {}
    numbers = {key for key, value in first.items() if value[0] is int}
    return {
        key
        for key in numbers
        if len(attributes) > 1
        and all(
            key not in one or one[key] == (int, first[key][1] + index)
            for index, one in enumerate(attributes)
        )
    }


def _described(leaf: Any) -> tuple[Any, ...]:
    """Return what Dynamo guards on of a tensor or a plain value, and the class of others."""
    if isinstance(leaf, torch.Tensor):
        return ("tensor", tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.requires_grad)
    return (type(leaf), leaf) if isinstance(leaf, _SCALARS) else (type(leaf),)
