"""Random generators that a model keeps: objects of Python, NumPy and torch."""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any

import torch


def state_of(value: object) -> Any:
    """Return the state of a random generator; None for any other value."""
    if isinstance(value, random.Random):
        is_of_the_system = isinstance(value, random.SystemRandom)  # it has none
        return None if is_of_the_system else value.getstate()
    if isinstance(value, torch.Generator):
        return value.get_state()
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.random.Generator):
        return value.bit_generator.state
    return None


def set_state(generator: Any, state: Any) -> None:
    """Give a generator a state that :func:`state_of` returned."""
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, torch.Generator):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def digest_of(value: object) -> str | None:
    """Return a short digest of a generator's state; None for any other value."""
    state = state_of(value)
    if state is None:
        return None
    text = repr(state.tolist() if isinstance(state, torch.Tensor) else state)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
