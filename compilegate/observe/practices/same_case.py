"""Builds the bench of a case again in a fresh process: the same recipe, weights and seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compilegate.observe.capture import compiling
from compilegate.observe.model.reference import Reference
from compilegate.observe.phases.builder import Builder
from compilegate.observe.phases.progress import Progress
from compilegate.observe.practices.bench import Bench
from compilegate.records.case import Case
from compilegate.records.request import Request
from compilegate.zoo import registry


def described(bench: Bench) -> dict[str, Any]:
    """Return what a fresh process needs to build a bench again, as part of its job."""
    builder, request = bench.builder, bench.request
    return {
        "case": builder.case.id,
        "source": registry.file_of(builder.model),
        "seed": request.seed,
        "backend": request.backend,
        "tf32": request.tf32,
        "weights": dict(builder.weights),
        "input_gradients": builder.input_gradients,
        "written_inputs": list(builder.written_inputs),
        "draws": bench.draws,
    }


def rebuilt(job: Mapping[str, Any]) -> Bench:
    """Return the bench that a job describes. This prepares the process as the child's is.

    Args:
        job: What :func:`described` returned.

    Raises:
        ZooError: The user's file cannot be imported.
    """
    case = Case.parse(job["case"])
    request = Request(
        case=case.id, wants=(), seed=job["seed"], backend=job["backend"], tf32=job["tf32"]
    )
    models = registry.load()
    if case.model not in models:
        models = registry.load_with([job["source"]])
    progress = Progress(lambda stage: None)
    builder = Builder(models[case.model], case, request.seed, progress)
    builder.weights = job["weights"]
    builder.input_gradients = job["input_gradients"]
    builder.written_inputs = tuple(job["written_inputs"])
    compiling.allow_tf32(request.tf32)
    compiling.draw_as_eager(request.backend)
    return Bench(builder, request, progress, Reference(builder), job["draws"])
