"""Properties that a guard may check: if one changes, a recompilation is justified."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compilegate.observe import nested
from compilegate.observe.model.state import STRUCTURE
from compilegate.zoo.example import Call

#: Types whose values Dynamo guards.
_WORDS = (bool, str, bytes, type(None), slice, enum.Enum, torch.dtype, torch.device)
#: Prefixes of the names of Python values that a model keeps. See :meth:`Subject.state`.
_KEPT = ("attribute ", "class ", "closure ", "function ", "global ")


@dataclass(frozen=True)
class Signature:
    """The numbers of a call by path, and a digest of the rest. See :class:`CallFacts`."""

    numbers: dict[str, float]
    rest: str


def _layout(tensor: torch.Tensor) -> str:
    """Return the number and order of a tensor's dimensions in memory, without their sizes."""
    if tensor.layout is not torch.strided:
        return str(tensor.layout)
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return f"{order} contiguous {tensor.is_contiguous()}"


def _leaves(arguments: object) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of the arguments, and the tensors that objects among them hold, by path.

    Dynamo guards the sizes of those tensors. A number in an object may be a counter.
    """
    known = dict(nested.leaves(arguments, ""))
    yield from known.items()
    for path, leaf in nested.tensors(arguments, "", nested.Opening()).items():
        if path not in known:
            yield path, leaf


def of(
    call: Call, index: int, state: Mapping[str, Any], *, swaps_weights: bool = False
) -> Signature:
    """Return the signature of a call, from the state before it.

    Args:
        call: Its arguments.
        index: Its number.
        state: What the model keeps between calls, by name. Only flags and strings among its Python
            values count. A counter does not: where Dynamo recompiles for one, the model should be
            changed.
        swaps_weights: Whether the action before the call changed weights. Compiled code reads them
            at each call, so nothing that such an action does justifies a recompilation.
    """
    numbers: dict[str, float] = {}
    rest: list[str] = [nested.structure(call.args), nested.structure(call.kwargs)]
    storages: dict[int, int] = {}
    for path, leaf in _leaves([call.args, call.kwargs]):
        if isinstance(leaf, torch.Tensor):
            numbers |= {
                f"{path} dim {dim}": size
                for dim, size in enumerate(leaf.shape)
                if type(size) is int
            }
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
        words = isinstance(value, (bool, str, type(None))) and not name.endswith(STRUCTURE)
        if name.startswith(_KEPT) and words:
            rest.append(f"{name} {value!r}")
    if call.before is not None and not swaps_weights:
        rest.append(f"action before call {index}")  # it may change whatever the model reads
    return Signature(numbers, hashlib.sha256("\n".join(rest).encode()).hexdigest()[:8])
