"""Nudge what operators compute: such a run rounds in other places, as compiled code does.

A nudge of inputs does not always get far. ``round`` and a cast to half precision absorb it, and a
constant or a buffer never had one. The sums that follow round all the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from compilegate.observe.floating import has_arithmetic
from compilegate.observe.model.dispatch_mode import Mode
from compilegate.observe.model.nudging import BITS, is_fixed_point, nudge

#: What the names of operators contain that round, apart from pointwise ones. An operator that only
#: selects or moves numbers must not be here: ``x == x.max()`` has to stay true.
_ROUNDING = re.compile(
    r"sum|mean|var|std|prod|norm|mm(_|$)|mv$|dot|conv|softmax|avg_pool|upsample|grid_sampler|"
    r"attention|dist|linear|fft|bag|cross|(scatter|index)_(add|reduce)"
)
#: Pointwise operators that PyTorch does not tag as such.
_UNTAGGED = re.compile(r"hardswish|mish|log_sigmoid|glu|relu")


#: What sums in some order of its own: sums and norms, but no products of matrices, for which
#: compiled code calls the same libraries as eager.
_SUMMING = re.compile(r"sum|mean|var|std|norm")
#: Norms that return their result, means and reciprocals of standard deviations.
_NORMALISING = re.compile(r"^_?(native_|cudnn_)?(batch|layer|group)_norm(_legit|_with_update)?$")
#: The backward of a batch norm. It returns the gradients of input, weight and bias.
_NORM_BACKWARD = re.compile(r"^(native_|cudnn_)?batch_norm_backward$")
#: A sum of n numbers, one after the other, errs by up to this many units in the last place, times
#: the root of n, where the numbers do not cancel.
_OF_ROOT = 0.6
#: What rounds otherwise in compiled code even where eager's result is a whole number: 6 / 3 becomes
#: a product with a reciprocal on a GPU, and the logarithm of 8 is a polynomial in vector code.
_INEXACT = re.compile(r"div|reciprocal|sqrt|exp|log|pow|mean|norm|pool|upsample|dist")
#: What equals its operand by rounding alone, of large or of small numbers. Code that computes
#: another formula rounds them otherwise.
_NEAR_OPERAND = re.compile(r"mish|gelu|silu|hardswish|sin|tan|erf$|expm1|log1p")
#: What returns one exactly, of 0 and with an exponent of 0.
_ONE = re.compile(r"exp|pow")
#: Divisions that round down or towards zero.
_ROUNDED_QUOTIENT = re.compile(r"^(div|divide|floor_divide)$")


class _Nudging(Mode):
    """A mode that nudges results.

    Args:
        seed: The seed of the steps.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed


class NudgedSums(_Nudging):
    """A mode that moves sums as far as the order of summation moves them.

    Eager sums in pairs. Compiled code on a CPU sums one number after the other.
    """

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, then nudge the sums in its result."""
        if not _SUMMING.search(func.overloadpacket.__name__):
            return func(*args, **kwargs)
        statistics = [(each, each.clone()) for each in _running(func, args)]
        result = func(*args, **kwargs)
        made = [leaf for leaf in _pytree.tree_leaves(result) if _is_floating(leaf)]
        given = [leaf for leaf in _pytree.tree_leaves((args, kwargs)) if _is_floating(leaf)]
        most = max((each.numel() for each in given), default=0)
        written = [each for each, before in statistics if not each.equal(before)]
        is_norm = _NORMALISING.search(func.overloadpacket.__name__) is not None
        # Without the gradients of weight and bias, nothing shows how far their sums have moved.
        is_backward = _NORM_BACKWARD.search(func.overloadpacket.__name__) is not None and all(
            isinstance(each, Tensor) and each.numel() for each in result
        )
        sums_before = [each.clone() for each in result[1:3]] if is_norm or is_backward else []
        for tensor in (*made, *written):
            if is_fixed_point(tensor):  # such a sum is exact in any order
                continue
            units = max(_OF_ROOT * math.sqrt(most / tensor.numel()), 1.0)
            nudge([tensor], units * torch.finfo(tensor.dtype).eps, self._seed)
        if is_norm and result[1].numel():  # a batch norm in evaluation returns none
            _follow(func, args, result, *sums_before)
        if is_backward:
            _follow_backward(func, args, result, *sums_before)
        return result


def _follow(
    func: Any, args: tuple[Any, ...], result: tuple[Tensor, ...], mean: Tensor, scale: Tensor
) -> None:
    """Move normalised numbers as their mean and deviation have moved, those of a channel alike.

    Where the mean is large next to the deviation, this is far more than one unit. Zeros stay: in
    a group of equal numbers, all are the mean.

    Args:
        func: A norm.
        args: Its arguments.
        result: What it returned: the numbers, the means, and the reciprocals of the deviations.
        mean: The means before they moved.
        scale: The reciprocals before they moved.
    """
    normalised, moved_mean, moved_scale, *_ = result
    is_layer_norm = func.overloadpacket.__name__.endswith("layer_norm")
    weight, bias = args[2:4] if is_layer_norm else args[1:3]
    shift, factor = (mean - moved_mean) * scale, (moved_scale / scale + 1) / 2  # the root halves it
    if not is_layer_norm:
        channels = (normalised.shape[1], *[1] * (normalised.dim() - 2))
        weight, bias = (each if each is None else each.view(channels) for each in (weight, bias))
        shift, factor = (  # a group norm has statistics of each group and item
            each.repeat_interleave(channels[0] // each.shape[-1], -1).view(-1, *channels)
            for each in (shift, factor)
        )
    shift = shift if weight is None else shift * weight
    centred = normalised if bias is None else normalised - bias
    normalised += torch.where(centred != 0, shift + (factor - 1) * centred, 0.0)


def _follow_backward(
    func: Any, args: tuple[Any, ...], result: tuple[Tensor, ...], scale: Tensor, shift: Tensor
) -> None:
    """Move the gradient of a batch norm's input as its two sums have moved, a channel alike.

    Errors that a channel shares do not cancel in the sums of the layers before it.

    Args:
        func: The backward of a batch norm.
        args: Its arguments.
        result: What it returned: the gradients of the input, of the weight, and of the bias.
        scale: The gradient of the weight before it moved.
        shift: That of the bias.
    """
    named = {one.name: given for one, given in zip(func._schema.arguments, args, strict=False)}
    mean, deviation = named.get("save_mean"), named.get("save_invstd")
    gradient, moved_scale, moved_shift = result
    if mean is None or deviation is None or not mean.numel():  # evaluation, with running statistics
        return
    given, weight = named["input"], named["weight"]
    channels = (given.shape[1], *[1] * (given.dim() - 2))
    count = given.numel() / given.shape[1]
    mean, deviation, factor, to_scale, to_shift = (
        each.view(channels)
        for each in (
            mean,
            deviation,
            deviation if weight is None else deviation * weight,
            moved_scale - scale,
            moved_shift - shift,
        )
    )
    normalised = (given - mean) * deviation
    gradient -= factor / count * (to_shift + normalised * to_scale)


def _running(func: Any, args: tuple[Any, ...]) -> Iterator[torch.Tensor]:
    """Yield the running statistics that a batch norm gets, and writes to in training."""
    for argument, given in zip(func._schema.arguments, args, strict=False):
        if argument.name.startswith("running_") and isinstance(given, torch.Tensor):
            yield given


def _is_floating(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor) and has_arithmetic(leaf) and leaf.numel() > 0


class NudgedResults(_Nudging):
    """A mode that moves results by one unit in the last place, equal numbers alike.

    Numbers that an operator did not round stay: those that one of its operands has, too, integers,
    and numbers that need few bits, such as 2.5. A tie between them is one for all code. ``mish``
    and its like round also where the result equals the operand. NaN gets the other sign if the
    seed is odd.
    """

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, then nudge what it has rounded."""
        name = func.overloadpacket.__name__
        is_pointwise = torch.Tag.pointwise in func.tags or _UNTAGGED.search(name) is not None
        if not is_pointwise and not _ROUNDING.search(name):
            return func(*args, **kwargs)
        keeps = is_pointwise and not _NEAR_OPERAND.search(name)
        operands = [*_operands(func, args, kwargs)] if keeps else []
        result = func(*args, **kwargs)
        for tensor in _pytree.tree_leaves(result):
            if _is_floating(tensor):
                self._move(func, tensor, operands)
        return result

    def _are_exact(self, func: Any, rounded: torch.Tensor) -> torch.Tensor:
        """Return which results of an operator all code has, without rounding."""
        return _is_short(rounded)

    def _move(self, func: Any, tensor: torch.Tensor, operands: list[torch.Tensor | float]) -> None:
        rounded = tensor.clone()
        stays = self._are_exact(func, rounded)
        for operand in operands:
            if not isinstance(operand, Tensor) or _spreads_over(operand, rounded):
                stays |= rounded.abs() == abs(operand)
        nudge([tensor], torch.finfo(tensor.dtype).eps, self._seed)
        tensor.copy_(torch.where(stays, rounded, tensor))
        if self._seed % 2:  # no arithmetic defines the sign of NaN, but signbit shows it
            tensor.copy_(torch.where(rounded.isnan(), -rounded, tensor))


class NudgedResultsOfFixedPoint(NudgedResults):
    """A mode that moves results of numbers in fixed point, which stay as they are themselves.

    Whole results of operators that compiled code approximates move, too.

    Args:
        seed: The seed of the steps.
        device: ``cpu`` or ``cuda``. Compiled code divides inexactly on a GPU alone.
    """

    def __init__(self, seed: int, *, device: str) -> None:
        super().__init__(seed)
        self._divides_inexactly = device != "cpu"

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, then nudge what it has rounded. Of a quotient, nudge the dividend."""
        if _is_rounded_quotient(func, kwargs) and _is_floating(args[0]):
            return func(self._dividend(*args[:2]), *args[1:], **kwargs)
        return super().run(func, args, kwargs)

    def _dividend(self, dividend: torch.Tensor, divisor: torch.Tensor | float) -> torch.Tensor:
        """Return a dividend, moved where no number is the quotient: 1 / 0.1, but not 6 / 3."""
        moved = dividend.clone()
        nudge([moved], torch.finfo(moved.dtype).eps, self._seed)
        if self._divides_inexactly:
            return moved
        by = torch.as_tensor(divisor).to(dividend)
        is_exact = (dividend / by).double() * by.double() == dividend.double()
        return dividend.where(is_exact, moved)

    def _are_exact(self, func: Any, rounded: torch.Tensor) -> torch.Tensor:
        """Return which results of an operator all code has, without rounding."""
        name = func.overloadpacket.__name__
        if not _INEXACT.search(name):
            return _is_short(rounded)
        return _is_short(rounded) & (rounded.abs() <= (1 if _ONE.search(name) else 0))


def _is_rounded_quotient(func: Any, kwargs: dict[str, Any]) -> bool:
    """Whether an operator rounds a quotient down or towards zero, and writes to no operand."""
    name = func.overloadpacket.__name__
    rounds = kwargs.get("rounding_mode") is not None or name == "floor_divide"
    return rounds and bool(_ROUNDED_QUOTIENT.search(name)) and not func._schema.is_mutable


def _spreads_over(operand: Tensor, result: Tensor) -> bool:
    """Whether an operand can be compared with a result: ``glu`` returns half of its operand."""
    sizes = zip(operand.shape[::-1], result.shape[::-1], strict=False)
    return operand.dim() <= result.dim() and all(ours in (1, theirs) for ours, theirs in sizes)


def _operands(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[torch.Tensor | float]:
    """Yield the numbers that an operator gets, as they were before it writes to one of them."""
    for leaf in _pytree.tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and has_arithmetic(leaf):
            yield leaf.clone() if func._schema.is_mutable else leaf
        elif isinstance(leaf, float):
            yield leaf


def _is_short(tensor: torch.Tensor) -> torch.Tensor:
    """Return which numbers are integers, or leave the lower half of their digits zero."""
    digits = 1 - math.frexp(torch.finfo(tensor.dtype).eps)[1]
    lower = tensor.view(BITS[tensor.element_size()]) & ((1 << digits // 2) - 1)
    return lower.eq(0) | tensor.eq(tensor.trunc())
