"""Keep results unrounded between operators, as fused code does.

Eager rounds what each operator returns. Inductor fuses pointwise operators and reductions, computes
them in single precision, and rounds what it stores. Rounding ``tanh(0.256)`` to 0.25, or two scores
to one number, makes a tie that fused code does not have.

In single precision, a GPU computes ``x * y + z`` in one instruction, which rounds once. A mean of
squares less a squared mean cancels, and what is left are roundings.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from compilegate.observe.model.dispatch_mode import Mode

#: What Inductor fuses, apart from views and what PyTorch tags as pointwise: reductions, losses,
#: and what moves numbers. A batch norm is not here, because it also writes running statistics.
_FUSED = re.compile(
    r"sum|mean|var(_|$)|std|prod|a(rg)?(max|min)$|max(_pool|$)|min$|softmax|(layer|group|vector)_norm|"
    r"avg_pool|loss|_to_copy|cat$|stack$|clone|pad|flip|roll|repeat|gather$|index(_select)?$|"
    r"hardswish|glu|silu|(mish|elu|softplus|log_sigmoid|hardsigmoid|hardtanh)(_backward|_forward)"
)
#: Their last argument says whether they return single precision for half.
_SOFTMAXES = ("_softmax", "_log_softmax")
#: What one instruction of a GPU does to a product: its result is the product plus something.
_ADDING = re.compile(r"^(add|sub|rsub|sum|mean)_?$")
_MULTIPLYING = re.compile(r"^(mul|square|pow)_?$")
#: The shares of results that stay unrounded, by the remainder of the seed.
_SHARES = (1.0, 0.75, 0.5, 0.25)


@dataclass(frozen=True)
class _Unrounded:
    """The numbers of a tensor's memory before they were rounded.

    Attributes:
        memory: The memory. It is not used again as long as it is kept here.
        numbers: The numbers of all of it, in a wider dtype.
    """

    memory: torch.UntypedStorage
    numbers: Tensor


class _Fused(Mode):
    """A mode in which some operators get unrounded operands, and some results stay unrounded.

    Args:
        seed: Decides which of these results stay so. One of four seeds in sequence keeps all.

    Attributes:
        rounded: The dtypes of results that are kept.
        wide: The dtype in which they are kept.
    """

    rounded: tuple[torch.dtype, ...] = ()
    wide = torch.float32

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._unrounded: dict[int, _Unrounded] = {}
        self._draws = random.Random(seed)
        self._share = _SHARES[seed % len(_SHARES)]

    def gets(self, func: Any) -> bool:
        """Whether an operator gets unrounded operands. It writes to the first one alone, if any."""
        raise NotImplementedError

    def keeps(self, func: Any) -> bool:
        """Whether the result of such an operator may stay unrounded."""
        raise NotImplementedError

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, on unrounded operands if it gets these."""
        operands = any(self._is_rounded(one) for one in _pytree.tree_leaves((args, kwargs)))
        if not operands or not self.gets(func):
            return self._as_it_is(func, args, kwargs)
        if func._schema.is_mutable:
            return self._in_place(func, args, kwargs)
        result = func(*args, **kwargs)
        wide = self._computed_widely(func, args, kwargs)
        if wide is None:
            return result
        for ours, numbers in zip(*map(_pytree.tree_leaves, (result, wide)), strict=True):
            if isinstance(ours, Tensor):
                self._write(ours, numbers, func)
        return result

    def _computed_widely(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what an operator returns for unrounded operands; None if it refuses these."""
        if func.overloadpacket.__name__ in _SOFTMAXES:
            args = (*args[:2], False)  # it converts what it is given on a GPU, if that is rounded
        try:
            return func(*self._widened(args), **self._widened(kwargs))
        except (RuntimeError, TypeError):
            return None

    def _as_it_is(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, and round what it writes to."""
        result = func(*args, **kwargs)
        if func._schema.is_mutable:
            for one in _pytree.tree_leaves((args, kwargs)):
                if self._is_rounded(one) and (known := self._numbers(one)) is not None:
                    known.copy_(one)
        return result

    def _in_place(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Run an operator that writes to its first operand."""
        ours: Tensor = args[0]
        numbers = self._widened(ours).clone()
        if self._computed_widely(func, (numbers, *args[1:]), kwargs) is None:
            self._as_it_is(func, args, kwargs)
        else:
            self._write(ours, numbers, func)
        return ours

    def _write(self, ours: Tensor, numbers: Tensor, func: Any) -> None:
        """Write the result of an operator to a tensor, and keep it unrounded, too."""
        ours.copy_(numbers)
        if not self._is_rounded(ours):
            return
        keeps = self.keeps(func) and self._draws.random() < self._share
        keeps &= numbers.dtype == self.wide
        known = self._numbers(ours)
        if known is None and keeps:
            memory = ours.untyped_storage()
            all_numbers = ours.new_empty(0).set_(memory).to(self.wide)
            self._unrounded[memory._cdata] = _Unrounded(memory, all_numbers)
            known = self._numbers(ours)
        if known is not None:
            known.copy_(numbers if keeps else ours)

    def _numbers(self, ours: Tensor) -> Tensor | None:
        """Return the unrounded numbers of a tensor, as a view of those of its memory."""
        found = self._unrounded.get(ours.untyped_storage()._cdata)
        if found is None:
            return None
        return found.numbers.as_strided(ours.shape, ours.stride(), ours.storage_offset())

    def _widened(self, operands: Any) -> Any:
        return _pytree.tree_map_only(Tensor, self._wide, operands)

    def _wide(self, operand: Tensor) -> Tensor:
        if not self._is_rounded(operand):
            return operand
        known = self._numbers(operand)
        return operand.to(self.wide) if known is None else known

    def _is_rounded(self, one: Any) -> bool:
        is_tensor = isinstance(one, Tensor) and one.dtype in self.rounded
        return is_tensor and one.layout is torch.strided


class FusedResults(_Fused):
    """A mode in which results in half precision stay unrounded where Inductor fuses operators.

    Products of matrices, convolutions and explicit casts to half precision return rounded numbers.
    Compiled code also rounds what it stores for another kernel, and only it knows what that is.
    """

    rounded = (torch.bfloat16, torch.float16)

    def gets(self, func: Any) -> bool:
        """Whether Inductor fuses an operator."""
        name = func.overloadpacket.__name__
        is_seeded = torch.Tag.nondeterministic_seeded in func.tags
        is_pointwise = torch.Tag.pointwise in func.tags
        if func._schema.is_mutable:
            return not is_seeded and is_pointwise and name.endswith("_")
        returns_views = any(one.alias_info is not None for one in func._schema.returns)
        is_fused = is_pointwise or _FUSED.search(name) is not None
        return is_fused and not is_seeded and not returns_views

    def keeps(self, func: Any) -> bool:
        """Return that every such result may stay unrounded."""
        return True


class FusedProducts(_Fused):
    """A mode in which products in single precision stay unrounded until something is added."""

    rounded = (torch.float32,)
    wide = torch.float64

    def gets(self, func: Any) -> bool:
        """Whether an operator multiplies or adds."""
        name = func.overloadpacket.__name__
        return bool(_ADDING.search(name) or _MULTIPLYING.search(name))

    def keeps(self, func: Any) -> bool:
        """Whether an operator multiplies."""
        return bool(_MULTIPLYING.search(func.overloadpacket.__name__))
