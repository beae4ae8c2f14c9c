"""What the script of a culprit shows, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from compilegate.fuzzing.outcome import Kind


@dataclass(frozen=True, kw_only=True)
class Shows:
    """What a script shows, so that it need not look at anything else.

    Attributes:
        title: What is wrong, in one line.
        kind: How compiled code is wrong.
        aliasing: Whether tensors share memory that do not in eager, or the other way round.
        identity: Whether an output is another object than in eager, such as a copy of an input.
        sliced: Whether single slices of a tensor are wrong, such as a channel.
        strict: What the compiler must not do: break the graph, or compile again too often.
        counted: Whether breaks are counted, rather than that ``fullgraph=True`` refuses them.
        reason: The reason of the break that counts; empty for all of them.
        recompilations: How many recompilations of one code object are allowed; None for PyTorch's
            own limit.
        where: Which state differs first, as in :class:`Difference`; empty if none does.
        differs: All state that differs.
        is_number: Whether that is numbers alone, which no object of a class holds.
        draws: Whether the case draws random numbers as eager does.
        calls: How many calls show it; 0 for all of the recipe.
        hangs_s: Seconds after which the script of a hang ends.
        most: How many times eager's memory a call may need; 0 if memory is not measured.
        more: How many bytes more than that.
        exits: The status with which compiled code ends the process; 0 if it does not.
        may_raise: Whether calls may raise, on whichever side.
        change: The body of a function that changes the tensors of the last call; empty for none.
        cotangents: Code that changes where the backward of the last call starts; empty for none.
        setting: Code that changes attributes of the module before it; empty for none.
        cached: Whether PyTorch reads compiled code from caches, which are empty at first.
        brief: Whether to compare one output, and nothing else.
        careful: Whether to rely on nothing else that is known of the model and of its calls. Such
            a script is longer.
    """

    title: str
    kind: Kind = "values"
    aliasing: bool = False
    identity: bool = False
    sliced: bool = False
    strict: Literal["", "breaks", "recompiles"] = ""
    counted: bool = False
    reason: str = ""
    recompilations: int | None = None
    where: str = ""
    differs: tuple[str, ...] = ()
    is_number: bool = False
    draws: bool = False
    calls: int = 0
    hangs_s: float = 60.0
    most: float = 0
    more: int = 0
    exits: int = 0
    may_raise: bool = False
    change: str = ""
    cotangents: str = ""
    setting: str = ""
    cached: bool = False
    brief: bool = False
    careful: bool = False

    @property
    def raises(self) -> bool:
        """Whether calls may raise."""
        return (
            self.careful
            or self.may_raise
            or bool(self.strict)
            or self.kind in ("raises", "raises not")
        )
