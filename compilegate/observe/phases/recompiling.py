"""Compiles a case's model again, when everything about its first compilation was observed."""

from __future__ import annotations

from dataclasses import dataclass

from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.progress import Progress
from compilegate.records.observation import Stage
from compilegate.records.request import Request
from compilegate.zoo.registry import Model


@dataclass(frozen=True)
class Recompiler:
    """Discards compiled code, so that the model's next call compiles again.

    It ends the compilations of the calls before, so their log must have been read.

    Attributes:
        compiled: The compiled model.
        model: Its recipe.
        request: Names the compiler backend.
        progress: Is given the stages and the times.
    """

    compiled: Subject
    model: Model
    request: Request
    progress: Progress

    def start(self, stage: Stage, *, draws_as_eager: bool) -> Subject:
        """Enter a stage, and return the model that its next call compiles.

        Args:
            stage: The stage.
            draws_as_eager: Whether compiled code draws eager's random numbers.
        """
        self.progress.enter(stage)
        self.compiled.let_go()
        compile_log.reset()
        compiling.draw_as_eager(self.request.backend, enabled=draws_as_eager)
        compiling.compile_subject(self.compiled, self.model, self.request.backend)
        return self.compiled
