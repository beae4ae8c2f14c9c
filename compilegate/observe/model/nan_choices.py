"""Indices of NaN: a max-pool returns that of one of several, and PyTorch does not say of which."""

from __future__ import annotations

from typing import Any

import torch

from compilegate.observe.model.dispatch_mode import Mode

#: Operators that return values and their indices. Of equal maxima, ``argmax`` and ``max`` return
#: the first one. The documentation of these promises nothing.
_CHOOSING = frozenset(
    (
        *("aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices"),
        *("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d"),
        *("aten::fractional_max_pool2d", "aten::fractional_max_pool3d"),
        *("aten::kthvalue", "aten::median", "aten::mode", "aten::sort", "aten::topk"),
    )
)


class OtherChoices(Mode):
    """Chooses other elements than eager where values are NaN. What moves depends on the choice."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator. Where it returns NaN with an index, the next index takes its place."""
        made = func(*args, **kwargs)
        if func._schema.name not in _CHOOSING or not isinstance(made, tuple):
            return made
        if kwargs.get("stable"):  # equal elements then keep their order
            return made
        values, indices = made
        if not indices.numel():
            return made
        others = (indices + 1) % (indices.max() + 1)  # each is an index that exists
        return values, torch.where(values.isnan(), others, indices)
