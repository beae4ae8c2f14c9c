"""What eager chooses next to NaN and infinities, and compiled code need not choose, too.

A max-pool returns the index of one of several NaN, and PyTorch does not say of which. Eager
FlexAttention multiplies what a mask hides by zero, which makes NaN of an infinity. Compiled code
skips it. How far a convolution on a GPU spreads NaN depends on the layout of its arguments.

A binary search puts a NaN before or after all boundaries. On a GPU, eager ``grid_sample`` and
compiled code read different pixels where a coordinate is NaN. Compiled code also reads the first
pixel times zero in place of one outside of the image, and that pixel may be NaN.
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
_SEARCHES = frozenset(("aten::bucketize", "aten::searchsorted"))
#: And the position of their grid. The backward gets the gradient first.
_GRIDS = {
    **dict.fromkeys(("aten::grid_sampler_2d", "aten::grid_sampler_3d"), 1),
    **dict.fromkeys(("aten::cudnn_grid_sampler", "aten::_grid_sampler_2d_cpu_fallback"), 1),
    **dict.fromkeys(("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward"), 2),
    "aten::cudnn_grid_sampler_backward": 1,
}
#: A coordinate outside of every image.
_OUTSIDE = 3.0
_OF_ROWS = frozenset(("aten::kthvalue", "aten::median", "aten::mode", "aten::sort", "aten::topk"))
#: It is larger than any number that a pool compares, and exact with the place of an element added.
_LARGE = 2.0**52


class OtherChoices(Mode):
    """Chooses otherwise than eager next to NaN. What moves depends on the choice.

    Args:
        on_gpu: Whether compiled code runs on a GPU.
    """

    def __init__(self, *, on_gpu: bool = False) -> None:
        super().__init__()
        self._on_gpu = on_gpu

    def run_higher_order(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a higher-order operator. FlexAttention gets keys and values that are finite."""
        if func.name() == "flex_attention":
            query, *pair = args[:3]
            args = (query, *(each.nan_to_num(0.0, 0.0, 0.0) for each in pair), *args[3:])
        return func(*args, **kwargs)

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator. Where it returns one of several NaN, another index takes its place."""
        name = func._schema.name
        if self._on_gpu and name in _GRIDS:
            return _read_elsewhere(func, args, kwargs)
        made = func(*args, **kwargs)
        if name in _SEARCHES and isinstance(made, Tensor):
            return _found_elsewhere(made, *(args[::-1] if name == "aten::bucketize" else args)[-2:])
        is_choice = name in _POOLS | _OF_ROWS and isinstance(made, tuple)
        if not is_choice or kwargs.get("stable"):  # equal elements then keep their order
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


def _found_elsewhere(found: Tensor, boundaries: Tensor, numbers: Any) -> Tensor:
    """Return the places that a search finds, and another one where the order is not defined.

    The other one is among the first two, so it is an index that exists.
    """
    numbers = torch.as_tensor(numbers, device=found.device)
    has_order = ~(boundaries.isnan().any(-1, keepdim=boundaries.dim() > 1) | numbers.isnan())
    others = torch.where(found == 0, min(boundaries.shape[-1], 1), 0).to(found)
    return torch.where(has_order, found, others)


def _read_elsewhere(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Read images where coordinates that are NaN lie outside, and NaN for a first pixel of that."""
    at = _GRIDS[func._schema.name]
    grid = args[at].nan_to_num(_OUTSIDE, torch.inf, -torch.inf)
    made = func(*args[:at], grid, *args[at + 1 :], **kwargs)
    if not isinstance(made, Tensor):  # the gradients
        return made
    is_finite = args[0].flatten(2)[:, :, :1].isfinite()
    return torch.where(is_finite.view(*made.shape[:2], *[1] * (made.dim() - 2)), made, torch.nan)


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
