"""The practices of a case: observed last, each with models of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices.bench import Bench
from compilegate.records.practice import PRACTICES, Practice
from compilegate.records.request import Request


def observe(
    builder: Builder,
    request: Request,
    progress: Progress,
    reference: Reference,
    seen: dict[str, Practice],
    *,
    draws: bool,
    keep: Callable[[], None],
) -> None:
    """Observe the practices that are wanted, one after the other.

    Args:
        builder: Builds the case's model.
        request: Names the practices.
        progress: Is given the stages and the times.
        reference: The reference results of the case's calls.
        seen: Gets what each practice showed, by its name.
        draws: Whether a call draws random numbers.
        keep: Called before each practice.
    """
    shared: dict[object, Any] = {}
    for name in PRACTICES:
        if name in request.wants:
            keep()
            progress.enter(name)
            # What one practice needs of PyTorch must not end the cases of the others.
            practice = importlib.import_module(f"compilegate.observe.practices.{name}")
            compiling.draw_as_eager(request.backend)
            compile_log.reset()  # a practice counts its own graphs
            bench = Bench(builder, request, progress, reference, draws, shared)
            with progress.spend(name):
                seen[name] = practice.observe(bench)
