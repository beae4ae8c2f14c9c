"""The arithmetic of the reference: it replaces casts to lower precisions by casts to float64."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from compilegate.observe.model.dispatch_mode import Mode
from compilegate.observe.model.random_draws import DrawReplay, draws

_HALVES = (torch.float16, torch.bfloat16)
_LOWER = (torch.float32, *_HALVES)


class Lifting:
    """Runs a model in one precision throughout, even where the model casts to a lower one.

    A module in double precision still casts in its layers: Llama and T5 compute their norms in
    float32, and masks and positions have ``dtype=torch.float32``. Under a lifting, such casts and
    factories return ``dtype``, so that the reference does not round where only the author of the
    model chose to.

    A cast to half precision can be intentional, though: a model that rounds to bfloat16 and back
    wants the rounded value, and compiled code that drops the round trip is wrong. If a model has
    such casts, a second reference keeps them (``halves=False``). compilegate compares each tensor
    with the reference that eager is closer to.

    Args:
        dtype: The precision of the reference.
        halves: Whether to lift casts to half precision, too.

    Attributes:
        lifted_halves: Whether the model cast to half precision.
        lower: The operators that still returned a lower precision, by name.
        replay: The numbers that eager drew, for operators that would draw their own.
    """

    def __init__(self, dtype: torch.dtype = torch.float64, *, halves: bool = True) -> None:
        self.dtype = dtype
        self.lifted_halves = False
        self.lower: dict[str, torch.dtype] = {}
        self.replay: DrawReplay | None = None
        self._lowers = [d for d in (_LOWER if halves else (torch.float32,)) if d != dtype]

    @contextlib.contextmanager
    def active(self, unlifted: torch.dtype = torch.float32) -> Iterator[None]:
        """Enter the modes that a reference runs under.

        A model may ask for the properties of its dtype: the smallest number for a mask, the epsilon
        for a logarithm. It gets those of its dtype without the lifting.

        Args:
            unlifted: That dtype.
        """

        def finfo(dtype: torch.dtype | None = None) -> torch.finfo:
            asked = dtype or torch.get_default_dtype()
            return of_dtype(unlifted if asked == torch.float64 else asked)

        of_dtype = torch.finfo
        with _Dispatch(self), _Constants(self), mock.patch.object(torch, "finfo", finfo):
            yield

    def lift(self, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return keyword arguments in which a lower ``dtype`` is replaced."""
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in self._lowers:
            self.lifted_halves |= kwargs["dtype"] in _HALVES
            kwargs["dtype"] = self.dtype
        return kwargs

    def note(self, func: Any, result: Any) -> None:
        """Note an operator whose result has a lower precision than the reference."""
        for leaf in _pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.dtype in self._lowers:
                self.lower[str(func).rpartition(".")[0]] = leaf.dtype


class _Constants(TorchFunctionMode):
    """Lifts tensors made of Python numbers, which dispatch modes do not see."""

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
    """Lifts explicit casts and factories, and notes every result that stays lower.

    It does not lift custom kernels that always compute in float32, nor the branches of
    higher-order operators: see :class:`Mode`.
    """

    def __init__(self, lifting: Lifting) -> None:
        super().__init__()
        self._lifting = lifting

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kwargs = self._lifting.lift(kwargs)
        replay = self._lifting.replay
        if replay is not None and draws(func, args, kwargs):
            result = replay.draw(func, args, kwargs)
        else:
            result = func(*args, **kwargs)
        self._lifting.note(func, result)
        return result
