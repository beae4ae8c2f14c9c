"""How long compiled code takes to start from warm caches."""

from __future__ import annotations

import time
from dataclasses import replace

import torch._inductor.codecache

from compilegate.observe.capture import compiling
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.phases.recompiling import Recompiler
from compilegate.records.performance import CompileTime


def observe(again: Recompiler, planned: PlannedCall, first: CompileTime) -> CompileTime:
    """Compile the model again with the caches that the first compilation filled, and time it.

    A new process would also import the libraries. That takes the same time for each model, and is
    left out.

    Args:
        again: Compiles the model again.
        planned: The first call.
        first: The compile time of the first call.

    Returns:
        The compile time of the first call, with the seconds of the warm start.
    """
    compiled = again.start("restart", draws_as_eager=True)  # as the cached code was compiled
    torch._inductor.codecache.PyCodeCache.cache_clear()  # a new process has loaded no code
    with again.progress.spend("prepare"):
        call = compiled.prepare(planned)
        compiling.mark_dynamic(compiled, call)
    with again.progress.alone():
        others = OtherProcesses()
        start = time.perf_counter()
        with again.progress.spend("compile"):
            compiled.call(call, planned.index)
        taken_s = time.perf_counter() - start
    return replace(first, warm_s=taken_s, warm_busy=others.share())
