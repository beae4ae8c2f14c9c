"""What a report says of the stage: the part of the compiler, and what each backend shows."""

from __future__ import annotations

from collections.abc import Iterator

from compilegate.triage.search import costs
from compilegate.triage.search.ladder import Stage, option
from compilegate.triage.search.suspect import Suspect

#: How many lines that draw in a checkpoint are named.
_LINES = 3


def paragraphs(suspect: Suspect, stage: Stage) -> Iterator[str]:
    """Yield the part of the compiler, and what each backend shows.

    Args:
        suspect: The case.
        stage: Where on the ladder its failure begins.
    """
    if not stage.is_confirmed:
        yield f"Nothing was searched, because {stage.doubt}:"
        if any(seen.is_other for seen in stage.seen.values()):
            yield f"the run showed: {suspect.verdict.summary}"
    elif stage.cure:
        how = f"with `{option(stage.cure)}`, that is without {stage.name}, the case passes."
        yield f"**Stage:** {stage.name}: {how}"
    elif stage.backend:
        yield f"**Stage:** {stage.name}: `{stage.backend}` is the first backend that fails."
        for other in stage.apart:
            yield f"`{other}` also fails, but not for this reason: a backend that does more passes."
        yield from _recomputed(stage)
    elif costs.is_below_eager(suspect):
        yield "**Budget:** the budget allows less memory than eager needs, so every backend"
        yield "fails that saves none. No part of the compiler need be at fault. Raise the budget."
    else:
        yield "**Stage:** undecided: a lower backend than the failing one shows another failure."
    if stage.is_cold and stage.is_confirmed:
        yield "The case fails only with empty caches: with code from PyTorch's caches, it passes."
    yield ""
    yield "| backend | outcome | what it shows |"
    yield "| --- | --- | --- |"
    for backend, seen in stage.rungs():
        text = seen.besides(suspect.verdict.summary)
        yield f"| `{backend}` | {seen.outcome} | {text.replace('|', '/')} |"
    yield ""


def _recomputed(stage: Stage) -> Iterator[str]:
    """Yield what follows where random numbers are drawn inside a checkpoint."""
    for lines, what in (
        (stage.draws.kept, "`torch.utils.checkpoint`"),
        (stage.draws.renewed, "a checkpoint with `preserve_rng_state=False`"),
    ):
        yield from (f"`{line}` draws random numbers in {what}." for line in lines[:_LINES])
    if stage.is_recomputed:
        yield "If nothing in a checkpoint is recomputed in the backward, the case passes."
    if stage.draws.kept:
        yield "`eager` was tried without checkpoints: in their backward, it draws other random"
        yield "numbers, which is no fault."
    elif stage.draws.renewed and stage.backend == "aot_eager":
        yield "There, eager draws other numbers in the backward, and `aot_eager` the same ones,"
        yield "which is no fault. Doubt this stage: no script can tell this from a fault."
