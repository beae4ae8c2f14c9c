"""The practices of a case: observed last, each with models of its own."""

from __future__ import annotations

from collections.abc import Iterator

import torch._inductor.config

from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices import OBSERVERS
from compilegate.observe.practices.bench import Bench
from compilegate.records.practice import Practice, PracticeName
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
    for name, of_practice in OBSERVERS.items():
        if name in request.wants:
            progress.enter(name)
            torch._inductor.config.fallback_random = True  # as eager draws
            yield name, of_practice(Bench(builder, request, progress, reference, draws))
