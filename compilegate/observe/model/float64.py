"""The reference's arithmetic: what a model casts down on purpose is lifted to float64."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from compilegate.observe.model.dispatch_mode import Mode
from compilegate.observe.model.random_draws import Player, draws

_HALVES = (torch.float16, torch.bfloat16)
_LOWER = (torch.float32, *_HALVES)


class Lifting:
    """Runs a model in one precision throughout, also where it casts to a lower one.

    A module in double precision still casts inside: Llama and T5 compute their norms in float32,
    masks and positions are made with ``dtype=torch.float32``. Such casts and factories give
    ``dtype`` instead, so that the reference does not round where only the model's author chose to.

    Casts to half precision can be meant, though: a model that rounds to bfloat16 and back wants the
    rounded value, and compiled code that drops the round trip is wrong. Where there are such casts,
    a second reference keeps them (``halves=False``), and a tensor is held to the one that eager
    follows.

    Args:
        dtype: The reference's precision.
        halves: Whether casts to half precision are lifted too.

    Attributes:
        lifted_halves: Whether such casts were met.
        lower: The operators that gave a lower precision all the same, by name.
        player: What eager drew, for operators that would draw for themselves.
    """

    def __init__(self, dtype: torch.dtype = torch.float64, *, halves: bool = True) -> None:
        self.dtype = dtype
        self.lifted_halves = False
        self.lower: dict[str, torch.dtype] = {}
        self.player: Player | None = None
        self._lowers = [d for d in (_LOWER if halves else (torch.float32,)) if d != dtype]

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """The modes that a reference runs under.

        What a model asks of its tensors' dtype (the smallest number for a mask, the epsilon for a
        logarithm) is answered as for float32, which they would be in.
        """

        def finfo(dtype: torch.dtype | None = None) -> torch.finfo:
            asked = dtype or torch.get_default_dtype()
            return of_dtype(torch.float32 if asked == torch.float64 else asked)

        of_dtype = torch.finfo
        with _Dispatch(self), _Constants(self), mock.patch.object(torch, "finfo", finfo):
            yield

    def lift(self, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
        """Keyword arguments with a lower ``dtype`` replaced."""
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in self._lowers:
            self.lifted_halves |= kwargs["dtype"] in _HALVES
            kwargs["dtype"] = self.dtype
        return kwargs

    def note(self, func: Any, result: Any) -> None:
        """Note an operator whose result is lower than the reference's precision."""
        for leaf in _pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.dtype in self._lowers:
                self.lower[str(func).rpartition(".")[0]] = leaf.dtype


class _Constants(TorchFunctionMode):
    """Lifts tensors made of Python numbers, which no dispatch mode sees."""

    def __init__(self, lifting: Lifting) -> None:
        super().__init__()
        self._lifting = lifting

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in (torch.tensor, torch.as_tensor):
            kwargs = self._lifting.lift(kwargs)
        return func(*args, **(kwargs or {}))


class _Dispatch(Mode):
    """Lifts explicit casts and factories; notes what stays lower.

    Custom kernels that compute in float32 whatever they are given stay as they are, and what
    ``torch.cond`` and its like call.
    """

    def __init__(self, lifting: Lifting) -> None:
        super().__init__()
        self._lifting = lifting

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if isinstance(func, HigherOrderOperator):
            return func(*args, **(kwargs or {}))
        kwargs = self._lifting.lift(kwargs)
        player = self._lifting.player
        if player is not None and draws(func, args, kwargs):
            result = player.play(func, args, kwargs)
        else:
            result = func(*args, **kwargs)
        self._lifting.note(func, result)
        return result
