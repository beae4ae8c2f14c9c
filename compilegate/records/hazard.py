"""The record of a hazard: a pattern of Python that breaks graphs or compiles again.

Standard library only: the observed interpreter need not have more than torch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Written:
    """What ``torch.compile`` did with one way of writing a hazard, over all of its calls.

    Attributes:
        breaks: The id in PyTorch's registry of each graph break, sorted, once for each line of
            code that breaks. A break or a frame left to eager that has no id is here by the first
            line of its reason.
        places: Where each of them is, ``my_net.py:12 in forward``. Empty for a frame left to eager,
            and in runs of earlier versions.
        recompiles: The most recompilations of one code object.
        refused: Dynamo's error under ``fullgraph=True``; empty if it captured the whole.
    """

    breaks: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    recompiles: int = 0
    refused: str = ""


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """What a hazard showed, next to what versions of PyTorch that were measured show.

    Attributes:
        name: Its name in the catalogue.
        torch: The version of PyTorch, ``2.15.0``.
        as_written: The pattern itself.
        whole: The pattern itself, under ``fullgraph=True``.
        rewritten: The way to write it instead, under ``fullgraph=True``.
        breaks: The ids that are expected of the pattern, once for each line that breaks.
        captured_whole: Whether ``fullgraph=True`` is expected to capture it.
        recompiles: The recompilations that are expected of it.
        rewritten_recompiles: The recompilations that are expected of the rewrite.
    """

    name: str
    torch: str
    as_written: Written
    whole: Written
    rewritten: Written
    breaks: tuple[str, ...] = ()
    captured_whole: bool = False
    recompiles: int = 0
    rewritten_recompiles: int = 0
