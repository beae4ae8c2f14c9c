"""How much Python runs while a case compiles, counted in calls.

Seconds of compiling vary by 40% on a shared machine, the number of calls does not. What else varies
is kept out:

- The caches of graphs are off, so that all of it compiles. The kernels' own compilers are left out:
  a compilation that is not counted makes the kernels, imports modules and fills caches in memory.
  Those of fake tensors and of SymPy are emptied: what they hold depends on the cases before.
- All work is done in this thread. Inductor's compile workers would not be counted, nor would the
  thread that computes the backward on a GPU.
- Garbage is not collected, because finalisers would be called whenever that happens.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

import sympy.core.cache
import torch
import torch._functorch.config
import torch._inductor.config
from torch._subclasses.fake_tensor import FakeTensorMode

from compilegate.observe.capture import compiling
from compilegate.observe.measure import python_calls, work_by_part
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.phases.recompiling import Recompiler
from compilegate.records.performance import CompileWork


def count(again: Recompiler, planned: PlannedCall) -> CompileWork:
    """Compile the model twice more, and count the calls of the second time.

    Args:
        again: Compiles the model again.
        planned: The call that compiles it.
    """
    calls = python_calls.counter()
    with again.progress.spend("compile"), _repeatable():
        for around in (contextlib.nullcontext(), calls):
            # As in the case's own compilation, so that the kernels are the same.
            compiled = again.start("compile_work", draws_as_eager=True)
            FakeTensorMode.cache_clear()
            sympy.core.cache.clear_cache()
            call = compiled.prepare(planned)
            compiling.mark_dynamic(compiled, call)
            compiled.forget_gradients(call)
            gc.collect()
            with around:
                compiled.step(call)
    return work_by_part.compile_work(calls.by_code())


@contextlib.contextmanager
def _repeatable() -> Iterator[None]:
    """Keep out of the block what makes the number of calls vary."""
    gc.disable()
    try:
        with (
            torch._inductor.config.patch(
                compile_threads=1,
                fx_graph_cache=False,
                fx_graph_remote_cache=False,
            ),
            torch._functorch.config.patch(
                enable_autograd_cache=False, enable_remote_autograd_cache=False
            ),
            torch.autograd.set_multithreading_enabled(False),
        ):
            yield
    finally:
        gc.enable()
