"""Keep results in half precision unrounded between operators, as fused code does.

Eager rounds what each operator returns. Inductor fuses pointwise operators and reductions, computes
them in single precision, and rounds what it stores. Rounding ``tanh(0.256)`` to 0.25, or two scores
to one number, makes a tie that fused code does not have.
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

_HALVES = (torch.bfloat16, torch.float16)

#: What Inductor fuses, apart from views and what PyTorch tags as pointwise: reductions, losses,
#: and what moves numbers. A batch norm is not here, because it also writes running statistics.
_FUSED = re.compile(
    r"sum|mean|var(_|$)|std|prod|a(rg)?(max|min)$|max(_pool|$)|min$|softmax|(layer|group|vector)_norm|"
    r"avg_pool|loss|_to_copy|cat$|stack$|clone|pad|flip|roll|repeat|gather$|index(_select)?$|"
    r"hardswish|glu|silu|(mish|elu|softplus|log_sigmoid|hardsigmoid|hardtanh)(_backward|_forward)"
)
#: The shares of results that stay unrounded, by the remainder of the seed.
_SHARES = (1.0, 0.75, 0.5, 0.25)


@dataclass(frozen=True)
class _Unrounded:
    """The numbers of a tensor's memory before they were rounded.

    Attributes:
        memory: The memory. It is not used again as long as it is kept here.
        numbers: The numbers of all of it, in single precision.
    """

    memory: torch.UntypedStorage
    numbers: Tensor


class FusedResults(Mode):
    """A mode in which operators that Inductor fuses get unrounded operands.

    Products of matrices, convolutions and explicit casts to half precision return rounded numbers.
    Compiled code also rounds what it stores for another kernel, and only it knows what that is.

    Args:
        seed: Decides which results stay unrounded. One of four seeds in sequence keeps all.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._unrounded: dict[int, _Unrounded] = {}
        self._draws = random.Random(seed)
        self._share = _SHARES[seed % len(_SHARES)]

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, on unrounded operands if Inductor fuses it."""
        operands = [one for one in _pytree.tree_leaves((args, kwargs)) if _is_half(one)]
        if not operands or not _is_fused(func):
            return self._as_it_is(func, args, kwargs)
        if func._schema.is_mutable:
            return self._in_place(func, args, kwargs)
        result = func(*args, **kwargs)
        wide = func(*self._widened(args), **self._widened(kwargs))
        for ours, numbers in zip(*map(_pytree.tree_leaves, (result, wide)), strict=True):
            if isinstance(ours, Tensor):
                self._write(ours, numbers)
        return result

    def _as_it_is(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator, and round what it writes to."""
        result = func(*args, **kwargs)
        if func._schema.is_mutable:
            for one in _pytree.tree_leaves((args, kwargs)):
                if _is_half(one) and (known := self._numbers(one)) is not None:
                    known.copy_(one)
        return result

    def _in_place(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Run an operator that writes to its first operand."""
        ours: Tensor = args[0]
        numbers = self._widened(ours).clone()
        func(numbers, *self._widened(args[1:]), **self._widened(kwargs))
        self._write(ours, numbers)
        return ours

    def _write(self, ours: Tensor, numbers: Tensor) -> None:
        """Write numbers to a tensor, and keep them unrounded, too."""
        ours.copy_(numbers)
        if not _is_half(ours):
            return
        keeps = self._draws.random() < self._share and numbers.dtype == torch.float32
        known = self._numbers(ours)
        if known is None and keeps:
            memory = ours.untyped_storage()
            all_numbers = ours.new_empty(0).set_(memory).to(torch.float32)
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
        if not _is_half(operand):
            return operand
        known = self._numbers(operand)
        return operand.float() if known is None else known


def _is_fused(func: Any) -> bool:
    name = func.overloadpacket.__name__
    is_seeded = torch.Tag.nondeterministic_seeded in func.tags
    is_pointwise = torch.Tag.pointwise in func.tags
    if func._schema.is_mutable:
        return not is_seeded and is_pointwise and name.endswith("_")
    returns_views = any(one.alias_info is not None for one in func._schema.returns)
    is_fused = is_pointwise or _FUSED.search(name) is not None
    return is_fused and not is_seeded and not returns_views


def _is_half(one: Any) -> bool:
    return isinstance(one, Tensor) and one.dtype in _HALVES and one.layout is torch.strided
