"""Seeds, the random generators, quick initial weights, and random factors for weights."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from compilegate.observe.device import device as device_of
from compilegate.observe.model.dispatch_mode import Mode

#: At most this many random numbers are drawn for a tensor. It is prime: no row length divides it.
_DRAWN = 65_537
#: The operators with which modules draw their initial weights.
_DRAWS = (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)


def seed_everything(seed: int) -> None:
    """Seed every random generator that a model may use."""
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


class QuickWeights(Mode):
    """Draws large parameters on CPU quickly while a recipe builds a model: their numbers repeat.

    Drawing takes most of the time to build a transformer, and each side builds its own.
    """

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Draw one block of a large parameter and repeat it; run every other operator unchanged."""
        given = kwargs or {}
        if func not in _DRAWS or not _is_slow_to_draw(args[0]):
            return func(*args, **given)
        block = func(args[0].new_empty(_DRAWN), *args[1:], **given)
        flat = args[0].detach().view(-1)
        whole = flat.numel() // _DRAWN * _DRAWN
        flat[:whole].view(-1, _DRAWN).copy_(block)
        flat[whole:].copy_(block[: flat.numel() - whole])
        return args[0]


def _is_slow_to_draw(tensor: torch.Tensor) -> bool:
    is_plain = type(tensor) is nn.Parameter and tensor.device.type == "cpu"
    return is_plain and tensor.numel() > _DRAWN and tensor.is_contiguous()


def generator_state(device: str) -> str:
    """Return a digest of the state of torch's generator on a device (``cpu`` or ``cuda``)."""
    state = device_of(device).generator_state()
    return hashlib.sha256(bytes(state.tolist())).hexdigest()[:8]


def python_generators() -> dict[str, str]:
    """Return digests of the states of Python's and, if it is loaded, NumPy's generator, by name."""
    states: dict[str, object] = {"Python's random generator": random.getstate()}
    if "numpy" in sys.modules:
        _, numbers, *place = sys.modules["numpy"].random.get_state()
        states["NumPy's random generator"] = (numbers.tolist(), place)
    return {
        name: hashlib.sha256(repr(state).encode()).hexdigest()[:8] for name, state in states.items()
    }


def factors(tensor: torch.Tensor, amount: float, generator: torch.Generator) -> torch.Tensor:
    """Return random factors in the shape of a tensor, at most ``amount`` away from one.

    They are in float32 for a tensor in half precision, where such a factor would round to one.
    The factors of a large tensor repeat, because drawing takes the most time. The period is no
    multiple of its rows.
    """
    size = tensor.numel()
    drawn = torch.rand(min(size, _DRAWN), generator=generator, device=tensor.device)
    wide = torch.promote_types(tensor.dtype, torch.float32)
    found = 1 + amount * (drawn * 2 - 1).to(wide)
    return found.repeat(-(-size // _DRAWN))[:size].view(tensor.shape)
