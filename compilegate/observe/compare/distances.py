"""How far apart the elements of two tensors are, where either may hold infinities and NaN."""

from __future__ import annotations

import torch


def distances(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the absolute difference of each pair of elements, in float64.

    Equal infinities, and NaN and NaN, are no distance apart. Where only one of a pair is not
    finite, or both are in another way, the distance is infinite.

    Args:
        one: A tensor of any dtype.
        other: A tensor of the same shape.
    """
    one, other = (side.detach().to(torch.complex128) for side in (one, other))
    apart = (one - other).abs()
    are_same = (one == other) | (one.isnan() & other.isnan())
    return apart.where(~apart.isnan(), torch.inf).masked_fill(are_same, 0.0)
