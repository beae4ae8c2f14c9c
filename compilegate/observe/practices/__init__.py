"""What people do with a compiled model other than calling it: one module a practice."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compilegate.observe.practices import (
    activation_checkpointing,
    checkpoints,
    compiled_autograd,
    compiled_optimizer,
    hazards,
    regional,
    training_loop,
)
from compilegate.observe.practices.bench import Bench
from compilegate.records.practice import Practice, PracticeName

#: What observes each practice.
OBSERVERS: Mapping[PracticeName, Callable[[Bench], Practice]] = {
    "checkpoints": checkpoints.observe,
    "training_loop": training_loop.observe,
    "compiled_optimizer": compiled_optimizer.observe,
    "activation_checkpointing": activation_checkpointing.observe,
    "compiled_autograd": compiled_autograd.observe,
    "regional": regional.observe,
    "hazards": hazards.observe,
}
