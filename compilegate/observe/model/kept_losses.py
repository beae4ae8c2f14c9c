"""Losses that a forward leaves in attributes of modules: the backward starts from them, too.

A mixture of experts keeps its balancing loss as ``self.aux_loss``, for the training script to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.autograd.graph import Node

#: How the names of the state begin that modules have as attributes.
_ATTRIBUTE = "attribute "


def histories(state: Mapping[str, Any]) -> dict[str, Node | None]:
    """Return how autograd made each tensor that modules have as an attribute, by name.

    Args:
        state: What :meth:`.call_state.CallState.read` returned.
    """
    return {
        name: value.grad_fn
        for name, value in state.items()
        if name.startswith(_ATTRIBUTE) and isinstance(value, torch.Tensor)
    }


def made_by_call(
    before: Mapping[str, Node | None], after: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Return the tensors with a history that a forward has left in attributes, by name.

    There are none if one of them depends on what an earlier call has left: the backward of that
    call has freed its history, as that of a sum that the model never detaches.

    Args:
        before: The histories before the forward.
        after: The state after it.
    """
    made = {
        name: after[name]
        for name, history in histories(after).items()
        if history is not None and history is not before.get(name)
    }
    earlier = {history for history in before.values() if history is not None}
    if made and earlier and _reaches((one.grad_fn for one in made.values()), earlier):
        return {}
    return made


def _reaches(starts: Iterable[Node | None], wanted: set[Node]) -> bool:
    """Whether a path along autograd's graph leads from a start to a wanted node."""
    seen: set[Node] = set()
    pending = [start for start in starts if start is not None]
    while pending:
        node = pending.pop()
        if node in wanted:
            return True
        if node not in seen:
            seen.add(node)
            pending += [one for one, _ in node.next_functions if one is not None]
    return False
