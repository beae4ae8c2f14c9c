"""Random numbers as compiled code draws them with Inductor's own generator."""

from __future__ import annotations

import torch._inductor.config

from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.compare import randomness
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.progress import Progress
from compilegate.records.observation import Randomness
from compilegate.records.request import Request
from compilegate.zoo.registry import Model


def observe(
    eager: Subject,
    compiled: Subject,
    planned: PlannedCall,
    *,
    model: Model,
    request: Request,
    progress: Progress,
) -> Randomness | None:
    """Compile the model again, so that it draws with its own generator, and compare statistics.

    It ends the compilations of the calls before, so their log must have been read.

    Args:
        eager: The eager model.
        compiled: The compiled model.
        planned: The call whose inputs are used.
        model: The recipe.
        request: Names the compiler backend.
        progress: Is given the stage and the time.

    Returns:
        The statistics; None where the model returns no tensor.
    """
    progress.enter("random")
    with progress.spend("compile"):
        compiled.let_go()
        compile_log.reset()
        torch._inductor.config.fallback_random = False
        compiling.compile_subject(compiled, model, request.backend)
        return randomness.observe(eager, compiled, planned)
