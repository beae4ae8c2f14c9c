"""What happens when a code object is compiled for more sizes than the user allows.

Dynamo alone decides, before the backend sees a graph. The backend is therefore ``eager``, which
runs the graphs with PyTorch's own kernels: a compilation costs a second, not a minute.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.recompilation.html
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch._dynamo.config
from torch._dynamo import exc

from compilegate.observe.capture.compile_log import CompileLog
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.buckets import Compiled
from compilegate.observe.practices.sized_calls import SizedCalls
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.observe.practices.varied_sizes import Sizes, text_of

#: Captures as every backend does, and generates no code.
BACKEND = "eager"


def observe(bench: Bench, sizes: Sequence[Sizes], one_size: Compiled) -> None:
    """Call a model with ``dynamic=False`` at one size more than the recompile limit allows.

    Args:
        bench: Keeps the steps.
        sizes: At least two sizes. All but the last are compiled.
        one_size: What the model compiles at one size.
    """
    config, limit = torch._dynamo.config, len(sizes) - 1
    with config.patch(recompile_limit=limit):
        _fall_back(bench, f"recompile_limit = {limit}", sizes, one_size, {})
    if "recompile_limit" in inspect.signature(torch.compile).parameters:
        given = {"recompile_limit": 1}
        _fall_back(bench, "torch.compile(recompile_limit=1)", sizes[:2], one_size, given)
    again = "the model recompiles a code object at one size" if one_size.recompiles else ""
    with config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        name = "fail_on_recompile_limit_hit = True"
        _refuse(bench, name, sizes, exc.FailOnRecompileLimitHit, reason=again)
    with config.patch(recompile_limit=1):
        name = "recompile_limit = 1 with fullgraph=True"
        reason = "the model breaks graphs" if one_size.breaks else again
        limited = exc.FailOnRecompileLimitHit
        _refuse(bench, name, sizes, limited, reason=reason, fullgraph=True)
    with config.patch(error_on_recompile=True):
        _refuse(bench, "error_on_recompile = True", sizes, exc.RecompileError, reason=again)


def _compile(bench: Bench, options: Mapping[str, Any]) -> SizedCalls:
    return SizedCalls(bench, {"backend": BACKEND, "dynamic": False, **options})


def _fall_back(
    bench: Bench,
    name: str,
    sizes: Sequence[Sizes],
    one_size: Compiled,
    options: Mapping[str, Any],
) -> None:
    """Call at all sizes, then at the first one. The last size runs in eager, and the log says so.

    Args:
        bench: Keeps the step.
        name: The name of the step.
        sizes: The sizes.
        one_size: What the model compiles at one size.
        options: Arguments of ``torch.compile``.
    """
    calls = _compile(bench, options)
    needed = one_size.objects * (len(sizes) - 1)
    with bench.step(f"{name}, {len(sizes)} sizes", needed=needed) as facts:
        log = CompileLog()
        for one in (*sizes, sizes[0]):
            facts.add(calls.compare(one))
        log.after_call(0)
        reached = "a recompile limit" if log.capture().limits else "no recompile limit"
        facts.require("what the compile log names", "a recompile limit", reached)


def _refuse(
    bench: Bench,
    name: str,
    sizes: Sequence[Sizes],
    wanted: type[Exception],
    *,
    reason: str,
    fullgraph: bool = False,
) -> None:
    """Call twice at the first size, then at the second one, which raises, and at the first again.

    Args:
        bench: Keeps the step.
        name: The name of the step.
        sizes: The sizes.
        wanted: The error that the second size must raise.
        reason: Why the model cannot be used so; empty if it can.
        fullgraph: Whether a graph break is an error.
    """
    calls = _compile(bench, {"fullgraph": fullgraph})
    first, second = sizes[:2]
    with bench.step(f"{name}, {text_of(first)}, then {text_of(second)}") as facts:
        if reason:
            raise StepUnavailableError(reason)
        for _ in range(2):
            facts.add(calls.compare(first))
        raised = "no error"
        try:
            calls.call(second)
        except wanted as error:
            raised = type(error).__name__
        facts.require(f"a call with {text_of(second)}", wanted.__name__, raised)
        facts.add(calls.compare(first))
