"""How long compiled code takes to start where the caches hold what it compiled before."""

from __future__ import annotations

import time
from dataclasses import replace

import torch._inductor.codecache
import torch._inductor.config

from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.subject import Subject
from compilegate.observe.phases.progress import Progress
from compilegate.records.performance import CompileTime
from compilegate.records.request import Request
from compilegate.zoo.registry import Model


def observe(
    compiled: Subject,
    planned: PlannedCall,
    first: CompileTime,
    *,
    model: Model,
    request: Request,
    progress: Progress,
) -> CompileTime:
    """Compile the model again with the caches that the first compilation filled, and time it.

    It ends the compilations of the calls before, so their log must have been read. A new process
    would also import the libraries; that is the same for each model, and left out.

    Args:
        compiled: The compiled model.
        planned: The first call.
        first: The compile time of the first call.
        model: The recipe.
        request: Names the compiler backend.
        progress: Is given the stage and the time.

    Returns:
        The compile time of the first call, with the seconds of the warm start.
    """
    progress.enter("restart")
    compiled.let_go()
    compile_log.reset()
    torch._inductor.codecache.PyCodeCache.cache_clear()  # a new process has no loaded code
    torch._inductor.config.fallback_random = True  # as the cached code was compiled
    compiling.compile_subject(compiled, model, request.backend)
    with progress.spend("prepare"):
        call = compiled.prepare(planned)
        compiling.mark_dynamic(compiled, call)
    others = OtherProcesses()
    start = time.perf_counter()
    with progress.spend("compile"):
        compiled.call(call, planned.index)
    return replace(first, warm_s=time.perf_counter() - start, warm_busy=others.share())
