"""Compare where the tensors of a state lie after a call: their memory and their strides."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch

from compilegate.observe.compare import exact
from compilegate.observe.model.result import EARLY, KEPT, Result
from compilegate.records.call import Difference

#: How the names of earlier outputs begin. Those of a call are compared with its output.
_OUTPUTS = (*EARLY, KEPT)


def unlike(eager: Result, compiled: Result, judged: Collection[str]) -> Iterator[Difference]:
    """Yield where a tensor lies otherwise than in eager, if the call moved it on either side.

    Args:
        eager: The eager call.
        compiled: The compiled call.
        judged: The names of the state that is compared.
    """
    knows_memory = eager.sharing is not None and compiled.sharing is not None
    for name, what in eager.moved.items():
        for one in ("memory", "requires_grad"):
            if name in compiled.stayed and one in what and (one != "memory" or knows_memory):
                yield exact.difference(name, one, "changes it", "leaves it unchanged")
    moved = [name for name in judged if _is_moved(name, eager, compiled)]
    for name in moved:
        ours, theirs = eager.strides[name], compiled.strides[name]
        if eager.state[name].shape == compiled.state[name].shape and ours != theirs:
            yield exact.difference(name, "stride", ours, theirs)
    if knows_memory:
        yield from _unlike_sharing(eager, compiled, moved)


def _is_moved(name: str, eager: Result, compiled: Result) -> bool:
    """Whether a call moved a tensor that both sides have, or made it."""
    stays = name in eager.stayed and name in compiled.stayed
    return not stays and all(_has_tensor(name, side) for side in (eager, compiled))


def _has_tensor(name: str, side: Result) -> bool:
    is_tensor = isinstance(side.state.get(name), torch.Tensor)
    return is_tensor and name in side.strides and not name.startswith(_OUTPUTS)


def _unlike_sharing(eager: Result, compiled: Result, moved: list[str]) -> Iterator[Difference]:
    """Yield the first tensor that shares its memory with others than in eager."""
    ours, theirs = (
        _partners(side, other) for side, other in ((eager, compiled), (compiled, eager))
    )
    for name in moved:
        if ours.get(name) != theirs.get(name):
            shared = (" = ".join(sorted(one.get(name, ()))) for one in (ours, theirs))
            yield exact.difference(
                name, "aliasing", *(text or "no shared memory" for text in shared)
            )
            return


def _partners(side: Result, other: Result) -> dict[str, frozenset[str]]:
    """Return for each tensor all that share its memory, as far as both sides have them."""
    groups = [
        frozenset(n for n in group if n.startswith("parameter ") or _has_tensor(n, other))
        for group in side.sharing or ()
    ]
    own = [frozenset(n for n in g if not n.startswith(_OUTPUTS)) for g in groups]
    return {name: group for group in own if len(group) > 1 for name in group}
