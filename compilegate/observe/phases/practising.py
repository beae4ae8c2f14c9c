"""The practices of a case: observed last, each with models of its own."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices.bench import Bench
from compilegate.records.practice import PRACTICES, Practice, PracticeName
from compilegate.records.request import Request


def observe(
    builder: Builder, request: Request, progress: Progress, reference: Reference, *, draws: bool
) -> Iterator[tuple[PracticeName, Practice]]:
    """Observe the practices that are wanted, one after the other.

    Args:
        builder: Builds the case's model.
        request: Names the practices.
        progress: Is given the stages and the times.
        reference: The fp64 results of the case's calls.
        draws: Whether a call draws random numbers.
    """
    shared: dict[object, Any] = {}
    for name in PRACTICES:
        if name in request.wants:
            progress.enter(name)
            # What one practice needs of PyTorch must not end the cases of the others.
            practice = importlib.import_module(f"compilegate.observe.practices.{name}")
            compiling.draw_as_eager(request.backend)
            compile_log.reset()  # a practice counts its own graphs
            bench = Bench(builder, request, progress, reference, draws, shared)
            with progress.spend(name):
                seen = practice.observe(bench)
            yield name, seen
