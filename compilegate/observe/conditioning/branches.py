"""Branches: which sides of activations, clamps, masks and pools the numbers of a call reach.

Where no number before a ReLU is negative, a ReLU that leaks computes the same. Where a mask hides
nothing, code without the mask is right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from compilegate.observe.floating import has_arithmetic
from compilegate.observe.model.dispatch_mode import Mode

#: Yields each branch of one operator with whether a call of it reached the branch.
Sides = Callable[..., Iterator[tuple[str, bool]]]

#: Positive ends up to this size keep a divisor from being zero.
_GUARD = 1e-5
#: An additive mask hides what it adds less than this to.
_HIDDEN = -1e4


class Branches(Mode):
    """Follows the operators of a call, and records the branches that they do not reach.

    Attributes:
        missing: The branches that are not reached, such as ``relu 3: negative``: the operator, how
            often it was called before and in this call, and the branch.
        seen: How many branches there are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.missing: list[str] = []
        self.seen = 0
        self._calls: Counter[str] = Counter()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, and look at what it was given before it may write to that."""
        name = str(func).split(".")[1].rstrip("_")
        sides = _SIDES.get(name)
        found = [] if sides is None else [*sides(*args, **kwargs)]
        result = func(*args, **kwargs)
        if name in _POOLS:
            found += _positions(result, *args, **kwargs)
        if found:
            self._calls[name] += 1
        for branch, is_reached in found:
            self.seen += 1
            if not is_reached:
                self.missing.append(f"{name} {self._calls[name]}: {branch}")
        return result


def _signs(x: Tensor, *rest: Any, **named: Any) -> Iterator[tuple[str, bool]]:
    yield "negative", bool((x < 0).any())
    yield "positive", bool((x > 0).any())


def _ends(
    x: Tensor, lowest: Any = None, highest: Any = None, **named: Any
) -> Iterator[tuple[str, bool]]:
    lowest, highest = named.get("min", lowest), named.get("max", highest)
    if not has_arithmetic(x) or x.numel() < 2:  # a number that the model clamps, or indices
        return
    if _is_end(lowest) and not _is_guard(lowest):
        yield "below", bool((x < lowest).any())
    if _is_end(highest):
        yield "above", bool((x > highest).any())
    inside = torch.ones_like(x, dtype=torch.bool)
    if _is_end(lowest):
        inside &= x > lowest
    if _is_end(highest):
        inside &= x < highest
    yield "between", bool(inside.any())


def _is_end(value: Any) -> bool:
    return isinstance(value, Tensor) or (value is not None and math.isfinite(value))


def _is_guard(value: Any) -> bool:
    """Whether the end only keeps a divisor from being zero, which a probing call tries."""
    return isinstance(value, float) and 0 < value <= _GUARD


def _clamp_min(x: Tensor, lowest: Any) -> Iterator[tuple[str, bool]]:
    return _ends(x, lowest)


def _clamp_max(x: Tensor, highest: Any) -> Iterator[tuple[str, bool]]:
    return _ends(x, None, highest)


def _hard(x: Tensor) -> Iterator[tuple[str, bool]]:
    return _ends(x, -3.0, 3.0)


def _hardtanh(x: Tensor, lowest: float = -1.0, highest: float = 1.0) -> Iterator[tuple[str, bool]]:
    return _ends(x, lowest, highest)


def _mask(mask: Tensor, *rest: Any, **named: Any) -> Iterator[tuple[str, bool]]:
    if mask.numel() > 1:
        yield "true", bool(mask.any())
        yield "false", not bool(mask.all())


def _second(x: Tensor, mask: Tensor, *rest: Any, **named: Any) -> Iterator[tuple[str, bool]]:
    return _mask(mask)


def _chosen(one: Tensor, other: Tensor, **named: Any) -> Iterator[tuple[str, bool]]:
    if one.numel() > 1 and has_arithmetic(one):
        yield "first larger", bool((one > other).any())
        yield "second larger", bool((one < other).any())


def _attention(
    query: Tensor, key: Tensor, value: Tensor, *rest: Any, **named: Any
) -> Iterator[tuple[str, bool]]:
    mask = named.get("attn_mask", next((r for r in rest if isinstance(r, Tensor)), None))
    if mask is not None:
        hidden = ~mask if mask.dtype == torch.bool else mask < _HIDDEN
        yield from (("hidden" if side == "true" else "shown", r) for side, r in _mask(hidden))


def _positions(
    result: tuple[Tensor, Tensor], x: Tensor, size: Sequence[int], *window: Any
) -> Iterator[tuple[str, bool]]:
    """Yield the borders of a pool's window, with whether the largest element ever lies there.

    The last branch is a window without a positive element: only there does a ReLU before the pool
    show what it makes of negative numbers.

    Args:
        result: The largest element of each window, and its index in the flat plane.
        x: What is pooled, of shape (…, H, W).
        size: The size of the window.
        window: Its stride, padding and dilation, as far as they are not the default ones.
    """
    largest, places = result
    stride, padding, dilation = (*window[:3], *([], [0], [1])[len(window) :])[:3]
    step = stride or size
    for name, dim, at in (("row", -2, places // x.shape[-1]), ("column", -1, places % x.shape[-1])):
        number = torch.arange(largest.shape[dim], device=largest.device)
        starts = number * step[dim % len(step)] - padding[dim % len(padding)]
        offset = at - (starts[:, None] if dim == -2 else starts)
        end = (size[dim % len(size)] - 1) * dilation[dim % len(dilation)]
        yield f"largest in the first {name}", bool((offset == 0).any())
        yield f"largest in the last {name}", bool((offset == end).any())
    yield "nothing positive", bool((largest <= 0).any())


_SIDES: dict[str, Sides] = {
    **dict.fromkeys(("relu", "leaky_relu", "elu", "_prelu_kernel", "abs", "sign"), _signs),
    **dict.fromkeys(("hardswish", "hardsigmoid"), _hard),
    "hardtanh": _hardtanh,
    "clamp": _ends,
    "clamp_min": _clamp_min,
    "clamp_max": _clamp_max,
    "where": _mask,
    "masked_fill": _second,
    **dict.fromkeys(("maximum", "minimum"), _chosen),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_efficient_attention",
        ),
        _attention,
    ),
}
_POOLS = ("max_pool2d_with_indices",)
