"""What eager chooses next to NaN and infinities, and compiled code need not choose, too.

A max-pool returns the index of one of several NaN, and PyTorch does not say of which. Eager
FlexAttention multiplies what a mask hides by zero, which makes NaN of an infinity. Compiled code
skips it. How far a convolution on a GPU spreads NaN depends on the layout of its arguments.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from compilegate.observe.model.dispatch_mode import Mode

#: Operators that return values and their indices. Of equal maxima, ``argmax`` and ``max`` return
#: the first one. The documentation of these promises nothing.
_POOLS = frozenset(
    (
        *("aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices"),
        *("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d"),
        *("aten::fractional_max_pool2d", "aten::fractional_max_pool3d"),
    )
)
_OF_ROWS = frozenset(("aten::kthvalue", "aten::median", "aten::mode", "aten::sort", "aten::topk"))
#: It is larger than any number that a pool compares, and exact with the place of an element added.
_LARGE = 2.0**52


class OtherChoices(Mode):
    """Chooses otherwise than eager next to NaN. What moves depends on the choice."""

    def run_higher_order(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a higher-order operator. FlexAttention gets keys and values that are finite."""
        if func.name() == "flex_attention":
            query, *pair = args[:3]
            args = (query, *(each.nan_to_num(0.0, 0.0, 0.0) for each in pair), *args[3:])
        return func(*args, **kwargs)

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator. Where it returns one of several NaN, another index takes its place."""
        made = func(*args, **kwargs)
        name = func._schema.name
        if name not in _POOLS | _OF_ROWS or not isinstance(made, tuple):
            return made
        if kwargs.get("stable"):  # equal elements then keep their order
            return made
        values, indices = made
        if not values.isnan().any():
            return made
        if name in _POOLS:
            return values, _another_of_window(func, args, kwargs, values, indices)
        others = (indices + 1) % (indices.max() + 1)  # each is an index that exists
        several = _have_several(func, args, kwargs, indices)
        return values, torch.where(values.isnan() & several, others, indices)


class OtherLayouts(Mode):
    """Gives convolutions their arguments in another layout. cuDNN then takes another kernel."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator."""
        if func._schema.name == "aten::convolution":
            args = (*_in_other_layout(*args[:2]), *args[2:])
        return func(*args, **kwargs)


def _in_other_layout(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return images and kernels with the channels last, or first if they are last in any."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensors[0].dim())
    if last is None or any(one.layout is not torch.strided for one in tensors):
        return tensors
    is_last = any(
        one.is_contiguous(memory_format=last) and not one.is_contiguous() for one in tensors
    )
    other = torch.contiguous_format if is_last else last
    return tuple(one.contiguous(memory_format=other) for one in tensors)


def _another_of_window(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], values: Tensor, indices: Tensor
) -> Tensor:
    """Return the index of another NaN of each window that has several, or else the same index.

    The pool runs again, with numbers in place of NaN: they rise from the first NaN to the last one,
    and then fall.
    """
    image, *others = (each.double() if _is_floating(each) else each for each in args)
    places = torch.arange(image.numel(), device=image.device).to(image).view(image.shape)
    finite = image.clamp(-_LARGE / 2, _LARGE / 2)
    another = indices
    for numbers in (places, -places):
        coded = torch.where(image.isnan(), _LARGE + numbers, finite)
        chosen = func(coded, *others, **kwargs)[1]
        another = torch.where(values.isnan() & (chosen != indices), chosen, another)
    return another


def _is_floating(argument: object) -> bool:
    return isinstance(argument, Tensor) and argument.is_floating_point()


def _have_several(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], indices: Tensor
) -> Tensor:
    """Return whether the row of each index has several NaN."""
    given = dict(zip((each.name for each in func._schema.arguments), args, strict=False)) | kwargs
    dim = given.get("dim", -1)
    several: Tensor = args[0].isnan().sum(dim, keepdim=True) > 1
    return several if several.dim() == indices.dim() else several.squeeze(dim)
