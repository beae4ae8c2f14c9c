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
        how = f"with `{option(stage.cure)}`, so without {stage.name}, the case passes."
        yield f"**Stage:** {stage.name}: {how}"
    elif stage.backend:
        yield f"**Stage:** {stage.name}: `{stage.backend}` is the first backend that shows it."
        for other in stage.apart:
            yield f"`{other}` fails by itself, since a backend that does more passes."
        yield from _recomputed(stage)
    elif costs.is_below_eager(suspect):
        yield "**Budget:** it allows less memory than eager itself needs, so that every backend"
        yield "fails that saves none. No part of the compiler need be at fault. Raise the budget."
    else:
        yield "**Stage:** undecided: a backend below the one that fails shows something else."
    if stage.is_cold and stage.is_confirmed:
        yield "It shows with empty caches alone: with code from PyTorch's caches, the case passes."
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
        yield "If the backward keeps what it would compute again of a checkpoint, the case passes."
    if stage.draws.kept:
        yield "`eager` was tried without checkpoints: in their backward, it draws other numbers,"
        yield "though nothing is wrong."
    elif stage.draws.renewed and stage.backend == "aot_eager":
        yield "There, eager draws other numbers in the backward, and `aot_eager` the same ones,"
        yield "though nothing is wrong. Doubt this stage: no script can tell that from a fault."
