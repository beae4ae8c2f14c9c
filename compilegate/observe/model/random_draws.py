"""Record the random tensors that a call draws, and replay them in a run in another precision.

On a CPU a dropout mask depends on the seed alone, but normal and uniform numbers also depend on the
dtype. On a GPU all random numbers depend on the kernel, and so on the dtype. A float64 reference
that drew its own numbers would have other masks than the model that it judges.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from compilegate.observe.model import attention_dropout
from compilegate.observe.model.asserted_ranges import asserts_range
from compilegate.observe.model.dispatch_mode import Mode

_DROPOUT = torch.ops.aten.native_dropout.default

#: Arguments with which an operator draws nothing if one of them is zero or False.
_SWITCHES = ("dropout", "dropout_p", "train", "training")
#: Arguments of an operator that draws again what an earlier one drew: the backward of attention.
_SEEDS = ("philox_seed", "rng_state")


class ReplayError(RuntimeError):
    """Another run cannot draw the recorded numbers. The text explains why."""


class DrawRecording:
    """The random tensors that one call drew, in order.

    Args:
        is_needed: Whether another run certainly draws other numbers. If not, the other run may go
            on without the recording.

    Attributes:
        asserts_ranges: Whether an operator ran that asserts a range of its numbers on a GPU.
    """

    def __init__(self, *, is_needed: bool) -> None:
        self.is_needed, self.asserts_ranges = is_needed, False
        self._drawn: list[tuple[Any, torch.Tensor]] = []
        self._obstacle = ""

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Record every draw in a ``with`` block."""
        with _RecordingMode(self):
            yield

    def add(self, func: Any, args: tuple[Any, ...], result: Any) -> None:
        """Keep the tensor that an operator drew."""
        if isinstance(result, tuple) and func is not _DROPOUT:
            self._obstacle = f"{func} draws inside its kernel"
            return
        drawn = result[1] if func is _DROPOUT else result
        self._drawn.append((func.overloadpacket, drawn.detach().clone()))

    def add_mask(self, func: Any, mask: torch.Tensor | None) -> None:
        """Keep the mask of fused attention. In float64, attention calls dropout instead."""
        if mask is None:
            self._obstacle = f"{func} draws inside its kernel"
        else:
            self._drawn.append((_DROPOUT.overloadpacket, mask))

    def replay(self) -> DrawReplay:
        """Return a replay that starts at the first draw."""
        return DrawReplay(self._drawn, self._obstacle)


class DrawReplay:
    """Returns recorded tensors to operators that would draw."""

    def __init__(self, drawn: list[tuple[Any, torch.Tensor]], obstacle: str) -> None:
        self._drawn = iter(drawn)
        self._obstacle = obstacle

    def draw(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the result of an operator that draws the next recorded numbers.

        Raises:
            ReplayError: The next recorded draw comes from another operator.
        """
        if self._obstacle:
            raise ReplayError(self._obstacle)
        packet, drawn = next(self._drawn, (None, torch.empty(0)))
        if packet is not func.overloadpacket:
            raise ReplayError(f"{func} draws where eager drew {packet or 'nothing'}")
        if func is _DROPOUT:
            given, probability = args[0], args[1]
            return given * drawn * (1 / (1 - probability)), drawn
        if func._schema.is_mutable:
            return args[0].copy_(drawn)
        given = next((a for a in args if isinstance(a, torch.Tensor)), None)
        dtype = kwargs.get("dtype") or (given.dtype if given is not None else None)
        return drawn.to(dtype) if drawn.is_floating_point() else drawn.clone()


def draws(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator draws random numbers with these arguments.

    Attention and recurrent layers draw only for their dropout. cuDNN has one operator for recurrent
    layers with and without it. The backward of attention draws the numbers of its forward again.
    """
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    for index, argument in enumerate(func._schema.arguments):
        if argument.name in _SEEDS:
            return False
        if argument.name in _SWITCHES:
            given = args[index] if index < len(args) else argument.default_value
            given = kwargs.get(argument.name, given)
            if given is not None and not given:  # `native_dropout` takes None for True
                return False
    return True


class _RecordingMode(Mode):
    def __init__(self, recording: DrawRecording) -> None:
        super().__init__()
        self._recording = recording

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._recording.asserts_ranges |= asserts_range(func, args)
        is_drawn = draws(func, args, kwargs)
        if is_drawn and attention_dropout.is_fused_attention(func):
            result, mask = attention_dropout.run(func, args, kwargs)
            self._recording.add_mask(func, mask)
            return result
        result = func(*args, **kwargs)
        if is_drawn:
            self._recording.add(func, args, result)
        return result
