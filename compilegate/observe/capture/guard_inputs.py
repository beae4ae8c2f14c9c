"""What a guard may depend on: the reasons for which a call may rightly be compiled anew."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compilegate.observe import nested
from compilegate.observe.model.state import ORDER
from compilegate.zoo.example import Call

#: Values that Dynamo guards by what they are.
_WORDS = (bool, str, bytes, type(None), slice, enum.Enum, torch.dtype, torch.device)
#: How names of what a model keeps in Python begin. See :meth:`Subject.state`.
_KEPT = ("attribute ", "closure ")


@dataclass(frozen=True)
class Signature:
    """The numbers of a call by place, and a digest of the rest. See :class:`CallFacts`."""

    numbers: dict[str, float]
    rest: str


def _layout(tensor: torch.Tensor) -> str:
    """Number and order of dimensions in memory, whatever their sizes."""
    if tensor.layout is not torch.strided:
        return str(tensor.layout)
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return f"{order} contiguous {tensor.is_contiguous()}"


def of(call: Call, index: int, state: Mapping[str, Any]) -> Signature:
    """The signature of a call, as things are before it.

    Args:
        call: Its arguments.
        index: Its number.
        state: What the model keeps between calls, by name. Of its Python values only flags and
            words count: a counter, which Dynamo compiles anew for, is a reason to change the model.
    """
    numbers: dict[str, float] = {}
    rest: list[str] = [nested.structure(call.args), nested.structure(call.kwargs)]
    storages: dict[int, int] = {}
    for path, leaf in nested.leaves([call.args, call.kwargs], ""):
        if isinstance(leaf, torch.Tensor):
            numbers |= {f"{path} dim {dim}": size for dim, size in enumerate(leaf.shape)}
            shared = storages.setdefault(nested.storage_key(leaf) or id(leaf), len(storages))
            rest.append(f"{leaf.dtype} {leaf.requires_grad} {_layout(leaf)} memory {shared}")
        elif isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
            numbers[path] = leaf
        elif isinstance(leaf, _WORDS):
            rest.append(repr(leaf))
        elif isinstance(leaf, (set, frozenset)):
            rest.append(repr(sorted(map(repr, leaf))))
        else:  # its address would differ from call to call
            rest.append(type(leaf).__qualname__)
    for name, value in sorted(state.items()):
        words = isinstance(value, (bool, str, type(None))) and not name.endswith(ORDER)
        if name.startswith(_KEPT) and words:
            rest.append(f"{name} {value!r}")
    if call.before is not None:
        rest.append(f"action before call {index}")  # it may change whatever the model reads
    return Signature(numbers, hashlib.sha256("\n".join(rest).encode()).hexdigest()[:8])
