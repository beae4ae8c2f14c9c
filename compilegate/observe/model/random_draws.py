"""Random tensors that a call drew, so that a run in another precision can be given the same ones.

On a CPU a mask depends on the seed alone; normal and uniform numbers also depend on the dtype. On
a GPU all depend on the kernel, and so on the dtype: a float64 reference that drew for itself would
have other masks than the model that it is to judge.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch._ops import HigherOrderOperator

from compilegate.observe.model.dispatch_mode import Mode

_DROPOUT = torch.ops.aten.native_dropout.default


class TapeError(RuntimeError):
    """What was drawn cannot be drawn again in another run; the text says why."""


class Tape:
    """What one call drew, in order.

    Args:
        is_needed: Whether another run surely draws other numbers; else it may do without the tape.
    """

    def __init__(self, *, is_needed: bool) -> None:
        self.is_needed = is_needed
        self._drawn: list[tuple[Any, torch.Tensor]] = []
        self._trouble = ""

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is drawn in a ``with`` block."""
        with _Recorder(self):
            yield

    def note(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        """Keep what an operator drew."""
        if isinstance(result, tuple) and func is not _DROPOUT:
            self._trouble = f"{func} draws inside its kernel"
            return
        drawn = result[1] if func is _DROPOUT else result
        self._drawn.append((func.overloadpacket, drawn.detach().clone()))

    def player(self) -> Player:
        """A reader that begins at the first draw."""
        return Player(self._drawn, self._trouble)


class Player:
    """Gives what is on a tape to operators that would draw."""

    def __init__(self, drawn: list[tuple[Any, torch.Tensor]], trouble: str) -> None:
        self._drawn = iter(drawn)
        self._trouble = trouble

    def play(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What an operator gives when it draws what is next on the tape.

        Raises:
            TapeError: The tape holds something else.
        """
        if self._trouble:
            raise TapeError(self._trouble)
        packet, drawn = next(self._drawn, (None, torch.empty(0)))
        if packet is not func.overloadpacket:
            raise TapeError(f"{func} draws where eager drew {packet or 'nothing'}")
        if func is _DROPOUT:
            given, probability = args[0], args[1]
            return given * drawn * (1 / (1 - probability)), drawn
        if func._schema.is_mutable:
            return args[0].copy_(drawn)
        given = next((a for a in args if isinstance(a, torch.Tensor)), None)
        dtype = kwargs.get("dtype") or (given.dtype if given is not None else None)
        return drawn.to(dtype) if drawn.is_floating_point() else drawn.clone()


def draws(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator draws random numbers in this call."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    for index, argument in enumerate(func._schema.arguments):
        if argument.name == "dropout_p":  # an attention, which draws only if it drops
            given = args[index] if index < len(args) else argument.default_value
            return bool(kwargs.get("dropout_p", given))
    return True


class _Recorder(Mode):
    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self._tape = tape

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        # Of torch.cond and its like the branches run without this mode.
        if not isinstance(func, HigherOrderOperator) and draws(func, args, kwargs):
            self._tape.note(func, args, result)
        return result
