"""The names by which Dynamo knows the inputs whose sizes varied: ``L['x']``, dimension 0."""

from __future__ import annotations

from collections.abc import Iterator

from torch._dynamo import pgo
from torch._dynamo.variables import builder

#: Whether ``dynamic_sources`` takes one dimension of a tensor, as ``L['x']:0``.
TAKES_DIMENSIONS = hasattr(builder, "_parse_source_entry")


def varied() -> list[str]:
    """Return an entry of ``torch.compiler.config.dynamic_sources`` for each size that varied.

    Dynamo compares the inputs of a code object whenever it compiles the code object again with
    ``dynamic=None``. Where it can name no dimension, an entry names a tensor.
    """
    return [*dict.fromkeys(_entries())]


def _entries() -> Iterator[str]:
    for state in pgo.get_code_state().values():
        for source, seen in state.automatic_dynamic.items():
            if isinstance(seen.size, tuple):
                dims = [dim for dim, size in enumerate(seen.size) if size is pgo.auto_dynamic]
                yield from (f"{source}:{dim}" if TAKES_DIMENSIONS else source for dim in dims)
            elif seen.scalar is pgo.auto_dynamic:
                yield source
