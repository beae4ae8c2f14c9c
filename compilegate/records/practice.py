"""The records of a practice: what people do with a compiled model other than calling it.

A practice consists of steps, each a thing that a user does: save, load, export, train. Standard
library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from compilegate.records.call import Checked
from compilegate.records.hazard import Hazard
from compilegate.records.statistics import Interval

#: The practices, in the order in which they are observed. Each has a suite of its name.
PracticeName = Literal[
    "training_loop",
    "compiled_optimizer",
    "activation_checkpointing",
    "compiled_autograd",
    "distributed",
    "regional",
    "caches",
    "backends",
    "dynamic_strategies",
    "export",  # after the caches: it registers classes of outputs, which guards would see
    "generation",
    "serving",
    "metric",
    "twins",
    "hazards",
    # Last, since compiled code that reads moved weights can leave a GPU unusable.
    "checkpoints",
]

PRACTICES: tuple[PracticeName, ...] = get_args(PracticeName)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a practice, and what it showed.

    Attributes:
        name: What was done: ``load_state_dict into the compiled model``.
        outputs: The outputs of compiled code, compared with eager's and with the reference's.
        gradients: The gradients, compared likewise.
        state: Weights, buffers and inputs, and what is exact about the step: names, files, flags.
        compilations: Compilations of code objects that the step caused; None if not counted.
        needed: The most compilations that the step needs; None if any number is right.
        reasons: The guards that failed, where code was compiled again, then the code that was
            compiled for the first time.
        raised: The error that the step raised where eager raises none, with its class.
        traceback: The traceback of that error, as Python prints it.
        held_by_others: The share of the memory that other processes held when it ran out in a
            process that the step started; None if that is unknown, 0 for any other error.
        unavailable: Why the step was not taken: this version of PyTorch lacks something.
    """

    name: str
    outputs: Checked = field(default_factory=Checked)
    gradients: Checked = field(default_factory=Checked)
    state: Checked = field(default_factory=Checked)
    compilations: int | None = None
    needed: int | None = None
    reasons: tuple[str, ...] = ()
    raised: str = ""
    traceback: str = ""
    held_by_others: float | None = 0.0
    unavailable: str = ""


@dataclass(frozen=True, kw_only=True)
class Practice:
    """What a practice showed.

    Attributes:
        steps: Its steps, in order.
        graphs: Graphs that were compiled in all of its steps.
        figures: What was measured, by a name that ends in its unit: ``compiled_step_ms``.
        hazards: What each hazard showed, in the practice of that name.
        unavailable: Why none of its steps can be taken with this model or on this device.
    """

    steps: tuple[Step, ...] = ()
    graphs: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    hazards: tuple[Hazard, ...] = ()
    unavailable: str = ""


#: How the names of the figures of an interval end: the estimate, and both ends.
_ENDS = ("_ratio", "_low_ratio", "_high_ratio")


def figures_of(name: str, seen: Interval) -> dict[str, float]:
    """Return the figures that hold a ratio with its interval, under names that begin alike."""
    return dict(zip((name + end for end in _ENDS), (seen.value, seen.low, seen.high), strict=True))


def ratios_in(figures: Mapping[str, float]) -> Iterator[tuple[str, Interval]]:
    """Yield each ratio among figures, as :func:`figures_of` writes it, and its name."""
    for found in figures:
        name = found.removesuffix(_ENDS[1])
        if name != found:
            yield name, Interval(*(figures[name + end] for end in _ENDS))
