"""Regional compilation: compile the repeated block, not the whole model.

Blocks that are alike share one compilation, so warming up takes less time. The price is a call of
compiled code for each block.
https://docs.pytorch.org/tutorials/recipes/regional_compilation.html
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch._inductor import utils as inductor_utils

from compilegate.observe.capture import compile_log, compiling
from compilegate.observe.capture.compile_log import CompileLog
from compilegate.observe.device import device as device_of
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.model.subject import Subject
from compilegate.observe.practices import throughput
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.block_kinds import kinds
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.records.observation import GraphBreak
from compilegate.records.practice import Practice, figures_of

#: What a reason for a graph break contains, where the boundary of disabled code causes it.
_DISABLED = "torch.compiler.disable"
#: Dynamo's only word on it, from Python 3.12 on, where a comprehension calls the block.
_IN_COMPREHENSION = "comprehension_graph_break"


def observe(bench: Bench) -> Practice:
    """Compile the blocks, then the whole model; then mix modes, disable a block, and nest."""
    if not bench.builder.model.blocks:
        return Practice(unavailable="the model names no blocks in its decorator")
    kind_of = _kinds(bench)
    bench.figures |= {"blocks": len(kind_of), "distinct_blocks": len({*kind_of})}
    with bench.progress.alone():
        others = OtherProcesses()
        # Neither side finds kernels of the other, or of the case.
        with inductor_utils.fresh_cache():
            regional = _compile_blocks(bench, kind_of)
        with inductor_utils.fresh_cache():
            whole, breaks, objects = _compile_whole(bench)
        bench.figures["compile_busy_share"] = others.share()
    _time(bench, whole, regional)
    _mix_modes(bench, kind_of)
    _disable_one(bench, breaks)
    _nest(bench, objects)
    return bench.practice()


def _blocks(bench: Bench, subject: Subject) -> list[nn.Module]:
    """Return the repeated blocks of a model, in order."""
    assert isinstance(subject.module, nn.Module)
    assert bench.builder.model.blocks
    return [*subject.module.get_submodule(bench.builder.model.blocks).children()]


def _kinds(bench: Bench) -> tuple[int, ...]:
    """Return the kind of each block: those of one kind can share compiled code."""
    eager = bench.build()
    return kinds(_blocks(bench, eager), lambda: bench.call_eager(eager))


def _compile_s() -> float:
    """Return the seconds of compiling since the last reset."""
    return compile_log.compile_time(0.0, 0.0).total_s


def _compile_blocks(bench: Bench, kind_of: Sequence[int]) -> Subject:
    """Compile each block in place, in an empty compiler."""
    bench.forget_compiled()
    compiled = bench.build()
    chosen = compiling.options(compiled.case, bench.request.backend)
    with bench.step("compile() of each block", needed=len({*kind_of})) as facts:
        for block in (blocks := _blocks(bench, compiled)):
            block.compile(**chosen)
        facts.add(bench.compare(bench.build(), compiled))
        facts.require_graph(is_captured=compile_log.graphs() > 0, of=blocks)
    bench.figures["regional_graphs"] = compile_log.graphs()
    bench.figures["regional_compile_s"] = _compile_s()
    return compiled


def _compile_whole(bench: Bench) -> tuple[Subject, set[GraphBreak], int]:
    """Compile the whole model, and leave the code of the blocks in place.

    Returns:
        The model, its graph breaks, and how many code objects were compiled.
    """
    compiled = bench.build()
    before_s, before = _compile_s(), compile_log.compilations()
    with bench.step("torch.compile of the whole model") as facts:
        compiling.compile_subject(compiled, bench.builder.model, bench.request.backend)
        facts.add(bench.compare(bench.build(), compiled))
        facts.require_graph(is_captured=compile_log.compilations() > before)
    bench.figures["whole_compile_s"] = _compile_s() - before_s
    return compiled, _breaks(CompileLog())[0], compile_log.compilations() - before


def _breaks(log: CompileLog) -> tuple[set[GraphBreak], set[GraphBreak]]:
    """Return the graph breaks so far, and the frames that run in eager."""
    log.after_call(0)
    captured = log.capture()
    return {*captured.breaks}, {*captured.fallbacks}


def _time(bench: Bench, whole: Subject, regional: Subject) -> None:
    """Time calls of both in paired rounds; a ratio above 1 means that regional code is faster."""
    if any(step.raised or step.unavailable for step in bench.steps):
        return
    timing, seen = throughput.measure(bench, whole, regional)
    bench.figures |= {
        "whole_call_ms": min(timing.eager_ns) / 1e6,
        "regional_call_ms": min(timing.compiled_ns) / 1e6,
        **figures_of("throughput", seen),
        "call_busy_share": timing.busy,
    }
    regional.let_go()
    whole.let_go()


def _mix_modes(bench: Bench, kind_of: Sequence[int]) -> None:
    """Compile neighbouring blocks in different modes. Code of one must not serve another."""
    bench.forget_compiled()
    compiled = bench.build()
    case, backend = compiled.case, bench.request.backend
    chosen = compiling.options(case, backend)
    ways: tuple[dict[str, Any], ...] = (
        chosen,
        {**chosen, "mode": "reduce-overhead"},
        {**chosen, "mode": None, "options": {"epilogue_fusion": False}},
    )
    codes = len({(kind, index % len(ways)) for index, kind in enumerate(kind_of)})
    with bench.step("blocks in different modes and with options", needed=codes) as facts:
        if backend != "inductor":
            raise StepUnavailableError(f"the backend {backend} has no modes")
        for index, block in enumerate(_blocks(bench, compiled)):
            block.compile(**ways[index % len(ways)])
        for _ in range(2 if device_of(case.device).records_graphs else 0):
            torch.compiler.cudagraph_mark_step_begin()
            bench.call(compiled)
        torch.compiler.cudagraph_mark_step_begin()
        facts.add(bench.compare(bench.build(), compiled))
        used = min(len(kind_of), len(ways))
        wanted = "a graph in each mode"
        found = wanted if compile_log.compilations() >= used else "fewer graphs"
        facts.require("captured", wanted, found)
    compiled.let_go()


def _disable_one(bench: Bench, known: set[GraphBreak]) -> None:
    """Compile the whole model, except the block in the middle.

    Args:
        bench: The bench.
        known: The graph breaks of the whole model without a disabled block.
    """
    bench.forget_compiled()
    compiled = bench.build()
    blocks = _blocks(bench, compiled)
    middle = len(blocks) // 2
    were_traced: list[bool] = []
    blocks[middle].forward = torch.compiler.disable(_recorded(blocks[middle].forward, were_traced))
    with bench.step(f"torch.compiler.disable on block {middle}") as facts:
        log = CompileLog()
        compiling.compile_subject(compiled, bench.builder.model, bench.request.backend)
        facts.add(bench.compare(bench.build(), compiled))
        facts.require("runs of the disabled block", "one in eager", _runs(were_traced))
        breaks, in_eager = _breaks(log)
        at_boundary = {one for one in breaks | in_eager if _is_at_block(one)}
        facts.require("at the block", "a graph break", "a graph break" if at_boundary else "none")
        others = {one.reason for one in breaks - known - at_boundary}
        facts.require("other graph breaks", "none", "; ".join(sorted(others)) or "none")
        bench.figures["boundary_breaks"] = len(breaks & at_boundary)
        # Where the frame around the block runs in eager, Dynamo tries the frames that it calls,
        # which it otherwise inlines. That it leaves some of them to eager is no other break. Blocks
        # of torch.nn are among these, so that no graph may be left.
        bench.figures["frames_in_eager"] = len(in_eager)
        bench.figures["graphs_around_disabled"] = compile_log.graphs()


def _runs(were_traced: Sequence[bool]) -> str:
    """Describe the runs of a block, by whether Dynamo traced each."""
    if [*were_traced] == [False]:
        return "one in eager"
    traced = sum(were_traced)
    return f"{len(were_traced) - traced} in eager, {traced} traced"


def _is_at_block(found: GraphBreak) -> bool:
    return _DISABLED in found.reason or found.reason == _IN_COMPREHENSION


def _recorded(forward: Callable[..., Any], were_traced: list[bool]) -> Callable[..., Any]:
    """Return a function that calls another one, and notes whether Dynamo traces it."""

    def run(*args: Any, **kwargs: Any) -> Any:
        were_traced.append(torch.compiler.is_compiling())
        return forward(*args, **kwargs)

    return run


def _nest(bench: Bench, objects: int) -> None:
    """Mark the classes of the blocks as regions of the whole model.

    Args:
        bench: The bench.
        objects: How many code objects the whole model without regions compiles.
    """
    bench.forget_compiled()
    compiled = bench.build()
    with bench.step("torch.compiler.nested_compile_region", needed=objects) as facts:
        if not hasattr(torch.compiler, "nested_compile_region"):
            raise StepUnavailableError(
                f"torch {torch.__version__} has no torch.compiler.nested_compile_region"
            )
        with contextlib.ExitStack() as marked:
            for kind in {type(block) for block in _blocks(bench, compiled)}:
                region = torch.compiler.nested_compile_region(_function(kind.forward))
                marked.enter_context(mock.patch.object(kind, "forward", region))
            eager = bench.build()
            compiling.compile_subject(compiled, bench.builder.model, bench.request.backend)
            facts.add(bench.compare(eager, compiled))
        facts.require_graph(is_captured=compile_log.graphs() > 0)
    bench.figures["nested_compile_s"] = _compile_s()


def _function(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of its own, which marking may change, that calls another one."""

    def region(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    return region
