"""The sizes that the blocks of a model get in eager, where each block is compiled by itself.

The sizes of a call's own arguments do not tell them: a block of the image tower of CLIP never sees
the length of the texts.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from torch import nn

from compilegate.observe.capture import guard_inputs
from compilegate.observe.model.subject import Subject
from compilegate.zoo.example import Call


class BlockInputs:
    """A context manager that records the arguments of blocks while the model runs.

    Args:
        subject: The model.

    Attributes:
        numbers: Every number that a guard of a block may depend on, by path: one entry for each
            kind of call of a block. None where the whole model is compiled.
    """

    def __init__(self, subject: Subject) -> None:
        self.numbers: list[dict[str, float]] = []
        self._module, self._blocks = subject.module, subject.blocks
        self._hooks: list[Any] = []

    def __enter__(self) -> None:
        if self._blocks:
            assert isinstance(self._module, nn.Module)
            for block in self._module.get_submodule(self._blocks).children():
                hook = block.register_forward_pre_hook(self._see, with_kwargs=True)
                self._hooks.append(hook)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for hook in self._hooks:
            hook.remove()

    def _see(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen = guard_inputs.of(Call(args, kwargs), 0, {}).numbers
        if seen not in self.numbers:
            self.numbers.append(seen)
