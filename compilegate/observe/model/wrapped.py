"""Tensors that wrap others, such as a user's subclass: each counts as the tensors in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from compilegate.observe import nested


def in_parts(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Return leaves by name, with the parts of each tensor that wraps others in its place.

    The parts are tensors, and what PyTorch rebuilds the subclass from: numbers, texts and flags.
    A jagged tensor stays whole.
    """
    found: dict[str, Any] = {}
    for name, leaf in leaves.items():
        is_jagged = isinstance(leaf, torch.Tensor) and leaf.layout is torch.jagged
        if is_jagged or not is_traceable_wrapper_subclass(leaf):
            found[name] = leaf
            continue
        names, context = leaf.__tensor_flatten__()
        found |= in_parts({f"{name}.{part}": getattr(leaf, part) for part in names})
        found |= nested.leaves(context, f"{name} (context)")
    return found
