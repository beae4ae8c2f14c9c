"""Random numbers as compiled code draws them with Inductor's own generator."""

from __future__ import annotations

from compilegate.observe.compare import randomness
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.recompiling import Recompiler
from compilegate.records.randomness import Randomness


def observe(eager: Subject, again: Recompiler, planned: PlannedCall) -> Randomness | None:
    """Compile the model again, so that it draws with its own generator, and compare statistics.

    Args:
        eager: The eager model.
        again: Compiles the model again.
        planned: The call whose inputs are used.

    Returns:
        The statistics; None where the model returns no tensor.
    """
    with again.progress.spend("compile"):
        compiled = again.start("random", draws_as_eager=False)
        return randomness.observe(eager, compiled, planned)
