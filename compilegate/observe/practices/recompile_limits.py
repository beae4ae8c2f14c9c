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

from compilegate.observe import error_text
from compilegate.observe.capture.compile_log import CompileLog
from compilegate.observe.practices.bench import Bench, Compared, StepFacts, StepUnavailableError
from compilegate.observe.practices.buckets import Compiled
from compilegate.observe.practices.sized_calls import SizedCalls
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
    config, two = torch._dynamo.config, sizes[:2]
    limit = len(sizes) - 1
    with config.patch(recompile_limit=limit):
        _fall_back(bench, f"recompile_limit = {limit}", sizes, one_size, {})
    with config.patch(recompile_limit=1):
        with config.patch(fail_on_recompile_limit_hit=True):
            _refuse_last(bench, "fail_on_recompile_limit_hit = True", two, {})
        _refuse_last(bench, "recompile_limit = 1 with fullgraph=True", two, {"fullgraph": True})
    if "recompile_limit" in inspect.signature(torch.compile).parameters:
        _fall_back(bench, "torch.compile(recompile_limit=1)", two, one_size, {"recompile_limit": 1})
    _refuse_second(bench, sizes, one_size)


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


def _refuse_last(
    bench: Bench, name: str, sizes: Sequence[Sizes], options: Mapping[str, Any]
) -> None:
    """Call at all sizes. The last one raises, and the first one can be called after that."""
    calls = _compile(bench, options)
    with bench.step(f"{name}, {len(sizes)} sizes") as facts:
        for one in sizes[:-1]:
            facts.add(_captured(calls, one))
        _note_raised(facts, calls, sizes[-1], exc.FailOnRecompileLimitHit)
        facts.add(calls.compare(sizes[0]))


def _captured(calls: SizedCalls, sizes: Sizes) -> Compared:
    """Make a call on both sides.

    Raises:
        StepUnavailableError: ``fullgraph=True`` finds a graph break.
    """
    try:
        return calls.compare(sizes)
    except (exc.Unsupported, exc.UserError) as error:
        raise StepUnavailableError(f"the model breaks graphs: {error_text.of(error)}") from None


def _refuse_second(bench: Bench, sizes: Sequence[Sizes], one_size: Compiled) -> None:
    """Forbid to compile again. A second size raises, and the first one can be called after that."""
    calls = _compile(bench, {})
    name = f"error_on_recompile = True, {text_of(sizes[0])}, then {text_of(sizes[1])}"
    with (
        torch._dynamo.config.patch(error_on_recompile=True),
        bench.step(name, needed=one_size.objects) as facts,
    ):
        if one_size.recompiles:
            raise StepUnavailableError("the model compiles a code object again at one size")
        for _ in range(2):
            facts.add(calls.compare(sizes[0]))
        _note_raised(facts, calls, sizes[1], exc.RecompileError)
        facts.add(calls.compare(sizes[0]))


def _note_raised(
    facts: StepFacts, calls: SizedCalls, sizes: Sizes, wanted: type[Exception]
) -> None:
    """Make a call of compiled code, and note whether it raises what it must."""
    raised = "no error"
    try:
        calls.call(sizes)
    except wanted as error:
        raised = type(error).__name__
    facts.require(f"a call with {text_of(sizes)}", wanted.__name__, raised)
