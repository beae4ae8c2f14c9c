"""Reads what torch.compile did from the records of Dynamo, AOTAutograd and Inductor.

``torch._dynamo.explain`` is not used: it resets, and counts breaks as graphs minus one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import torch
import torch._dynamo.utils as dynamo
import torch._inductor.metrics

from compilegate.observe import error_text
from compilegate.observe.capture import cached_guards, cuda_graphs, recompile_reasons
from compilegate.observe.capture.explanations import explained
from compilegate.observe.capture.source_place import place
from compilegate.records.bounded_text import bounded
from compilegate.records.call import name_of_call
from compilegate.records.observation import Capture, Compilation, GraphBreak, written
from compilegate.records.performance import CompileTime

#: Dynamo's message where it compiled a code object so often that it gives up.
_LIMIT = re.compile(r"(recompile|cache).?(size)?.?limit", re.IGNORECASE)
#: A sentence that PyTorch ends within a name: "the builtin `sys.getrefcount.` This".
_ENDED = re.compile(r"(?<=\w)\.`(?=\s|$)")


def reset() -> None:
    """Forget everything that this process compiled and counted.

    ``torch.compiler.reset`` alone leaves counters, metrics and their limits behind.
    """
    torch.compiler.reset()
    dynamo.counters.clear()
    dynamo.graph_break_reasons.clear()
    dynamo.clear_compilation_metrics()
    dynamo.set_compilation_metrics_limit(100_000)
    cuda_graphs.forget()
    cached_guards.forget()
    recompile_reasons.forget()
    torch._inductor.metrics.reset()


def graphs() -> int:
    """Return how many graphs were captured since the last reset."""
    return int(dynamo.counters["stats"]["unique_graphs"])


def compilations() -> int:
    """Return how many code objects were compiled since the last reset, recompilations included."""
    return len(_compiled())


def reasons_of_recompilation(first: int) -> list[str]:
    """Return the guards that failed, each once, with the code that was compiled again for them.

    Code for which no guard failed follows: it was not compiled before.

    Args:
        first: How many compilations since the last reset are left out.
    """
    seen = [_compilation(entry, 0) for entry in _compiled()[first:]]
    failed = [f"{one.guard} ({one.code})" for one in seen if one.reason]
    new = [f"compiled for the first time: {one.code}" for one in seen if not one.reason]
    return [*dict.fromkeys(failed + new)]


def code_objects() -> int:
    """Return how many code objects were compiled, each counted once."""
    return len({(e.co_filename, e.co_firstlineno, e.co_name) for e in _compiled()})


def _compiled() -> list[Any]:
    metrics = dynamo.get_compilation_metrics()
    return [e for e in metrics if e.is_forward is not False and e.has_guarded_code]


def operators() -> tuple[tuple[str, ...], ...]:
    """Return the names of the nodes of each graph since the last reset, without its inputs."""
    noted = (getattr(e, "graph_node_shapes", None) for e in _compiled() if _has_operators(e))
    return tuple(tuple(_OPERATOR.findall(text or "")) for text in noted)


def captured_in(folder: str) -> bool:
    """Whether operators of code in a folder were captured since the last reset."""
    return any(
        _has_operators(entry) and (entry.co_filename or "").startswith(folder)
        for entry in dynamo.get_compilation_metrics()
    )


class CompileLog:
    """What ``torch.compile`` did in the calls of one case.

    Metrics are read after each call, so that every compilation has the call that triggered it.

    Args:
        lowers: Whether the backend is Inductor, which must generate code for every graph.
        graphs: Whether CUDA graphs are expected. Listening to their log takes compile time.
    """

    def __init__(self, *, lowers: bool = False, graphs: bool = False) -> None:
        cuda_graphs.listen(wanted=graphs)
        self._lowers = lowers
        self._seen = 0
        self._compilations: list[Compilation] = []
        #: The call of each graph break that Dynamo noted so far.
        self._calls_of_breaks: list[int] = []
        #: Each frame that was left to eager, with its call.
        self._left: list[tuple[GraphBreak, int]] = []
        self._not_lowered: dict[GraphBreak, None] = {}

    def after_call(self, index: int, sizes: Mapping[str, int] | None = None) -> None:
        """Attribute the compilations since the last call to this one.

        Args:
            index: The number of the call.
            sizes: The sizes of the call, by name.
        """
        metrics = dynamo.get_compilation_metrics()
        new = [e for e in metrics[self._seen :] if e.is_forward is not False and e.co_filename]
        found = [(entry, _compilation(entry, index)) for entry in new]
        self._compilations += [compilation for _, compilation in found]
        reason = f"Inductor generated no code for the graph of {name_of_call(index, sizes or {})}"
        for entry, compilation in found:
            if compilation.failure and not compilation.graph:
                self._left.append((_left_to_eager(entry, compilation), index))
            if self._lowers and _has_operators(entry) and not _is_lowered(entry):
                self._not_lowered[GraphBreak(reason=reason, id="", place=compilation.code)] = None
        self._seen = len(metrics)
        new_breaks = len(dynamo.graph_break_reasons) - len(self._calls_of_breaks)
        self._calls_of_breaks += [index] * new_breaks

    def capture(self) -> Capture:
        """Return everything that was captured so far."""
        unimplemented = [error_text.one_line(str(key)) for key in dynamo.counters["unimplemented"]]
        inductor = dynamo.counters["inductor"]
        breaks = _breaks(self._calls_of_breaks)
        limits = [text for text in unimplemented if _LIMIT.search(text)]
        limits += [c.failure for c in self._compilations if _LIMIT.search(c.failure)]
        recorded = cuda_graphs.recorded()
        return Capture(
            graphs=graphs(),
            lowered=any(map(_is_lowered, dynamo.get_compilation_metrics())),
            breaks=tuple(breaks),
            compilations=tuple(self._compilations),
            limits=tuple(dict.fromkeys(limits)),
            fallbacks=tuple(self._fallbacks()),
            caches=_cache_counters(),
            cudagraphs=recorded.total(),
            cudagraph_skips=tuple(cuda_graphs.left_out(inductor, recorded)),
        )

    def has_compiled(self) -> bool:
        """Whether a graph was captured and, by Inductor, code generated."""
        captured = self.capture()
        return captured.graphs > 0 and (captured.lowered or not self._lowers)

    def _fallbacks(self) -> list[GraphBreak]:
        """Return the frames and graphs that run entirely in eager.

        Dynamo leaves a frame to eager for a break inside a loop or a ``with`` block, for example. A
        backend leaves a graph to eager where it returns the graph itself.
        """
        frames, calls = [frame for frame, _ in self._left], [call for _, call in self._left]
        return [*_in_calls(frames, calls), *self._not_lowered]


#: Fields of a compilation's metrics: how often a cache held the code of its graph. Torch 2.8 counts
#: no hits, and notes the seconds that any cache saved.
_CACHE_HITS = (
    "remote_cache_time_saved_s",
    "inductor_fx_local_cache_hit_count",
    "inductor_fx_remote_cache_hit_count",
    "aotautograd_local_cache_hit_count",
    "aotautograd_remote_cache_hit_count",
)


def _is_lowered(entry: Any) -> bool:
    """Return whether Inductor generated code, or found it in a cache, which takes no time."""
    spent = getattr(entry, "inductor_cumulative_compile_time_us", None)
    return bool(spent) or any(getattr(entry, name, None) for name in _CACHE_HITS)


def _has_operators(entry: Any) -> bool:
    return bool(entry.has_guarded_code and getattr(entry, "graph_op_count", None))


def compile_time(first_call_s: float, busy: float, *, clock_was_set: bool = False) -> CompileTime:
    """Return the compile time so far, split into phases that do not overlap.

    Args:
        first_call_s: Seconds of the first call, on the monotonic clock.
        busy: Share of the processor's time that other processes took during that call.
        clock_was_set: Whether the wall clock, by which PyTorch times the phases, was set during
            that call. The whole call then counts as compiling, and no phase is known.
    """
    if clock_was_set:
        return CompileTime(
            total_s=first_call_s,
            dynamo_s=0.0,
            aot_s=0.0,
            inductor_s=0.0,
            codegen_s=0.0,
            first_call_s=first_call_s,
            busy=busy,
        )
    outer, backward = _seconds("dynamo"), _seconds("backward")
    aot, inductor = _seconds("aot_autograd"), _seconds("inductor")
    codegen = _seconds("inductor_code_gen")
    return CompileTime(
        total_s=outer + backward,
        dynamo_s=max(outer - aot, 0.0),
        aot_s=max(aot + backward - inductor, 0.0),
        inductor_s=max(inductor - codegen, 0.0),
        codegen_s=codegen,
        first_call_s=first_call_s,
        busy=busy,
    )


def seconds() -> float:
    """Return the seconds of compiling so far, on the wall clock.

    A backward that is compiled when it is first called has its own metrics. Its time is counted as
    ``backward``, the forward's as ``dynamo``, and both include Inductor's.
    """
    return _seconds("dynamo") + _seconds("backward")


def _seconds(part: str) -> float:
    entries = [e for e in dynamo.get_compilation_metrics() if not getattr(e, "is_runtime", False)]
    name = f"{part}_cumulative_compile_time_us"
    return sum(getattr(entry, name, None) or 0 for entry in entries) / 1e6


def _compilation(entry: Any, call: int) -> Compilation:
    reason, guarded_at = recompile_reasons.guard_and_source(
        cached_guards.with_lines(entry.recompile_reason or "")
    )
    return Compilation(
        code=place(entry.co_filename, entry.co_firstlineno or 0, entry.co_name or "?"),
        call=call,
        compile_id=str(entry.compile_id or ""),
        graph=bool(entry.has_guarded_code),
        reason=reason,
        guarded_at=guarded_at,
        failure=error_text.one_line(entry.fail_reason or ""),
        symbolic=_is_symbolic(getattr(entry, "graph_node_shapes", None) or ""),
    )


#: How Dynamo names the exception of the code that it traces.
_RAISED = re.compile(r"Developer debug context: raised exception (\w.*)")


def _left_to_eager(entry: Any, compilation: Compilation) -> GraphBreak:
    """Return a frame that Dynamo does not compile, and the line of a function in it or below."""
    file, line = entry.fail_user_frame_filename, entry.fail_user_frame_lineno
    reason = bounded(entry.fail_reason or "")
    raised = _RAISED.search(reason)
    explained = [f"this line raises {raised[1]}"] if raised else _labelled("Explanation", reason)
    return GraphBreak(
        reason=compilation.failure,
        id="",
        place=compilation.code,
        explanation=" ".join(explained),
        hint="" if raised else "\n".join(_labelled("Hint", reason)),
        broken_at=place(file, line or 0, "").source if file else "",
    )


#: The name of a node in a text such as ``{'l_x_': ['s33', 4], 'sin': ['s33', 4]}``, unless it is an
#: input, the sizes of a node, and a symbol in them.
_OPERATOR = re.compile(r"'(?![lg]_)(\w+)': \[")
_SIZES, _SYMBOL = re.compile(r"\[([^\]]*)\]"), re.compile(r"\b[su]\d+\b")


def _is_symbolic(shapes: str) -> bool:
    return any(_SYMBOL.search(sizes) for sizes in _SIZES.findall(shapes))


def _in_calls(met: Sequence[GraphBreak], calls: Sequence[int]) -> list[GraphBreak]:
    """Return each distinct break once, with the calls that it occurred in.

    Args:
        met: The breaks, as often as they occurred.
        calls: The calls of these, as far as they are known.
    """
    known: dict[GraphBreak, set[int | None]] = {}
    for found, call in zip_longest(met, calls):
        known.setdefault(found, set()).add(call)
    return [
        replace(found, calls=tuple(sorted(call for call in made if call is not None)))
        if None not in made
        else found
        for found, made in known.items()
    ]


def _breaks(calls: Sequence[int]) -> list[GraphBreak]:
    """Return the distinct graph breaks.

    Args:
        calls: The call of each break that occurred in a call.
    """
    found = []
    noted = [item.reason for item in dynamo.graph_break_reasons]
    unsupported = [*map(str, dynamo.counters["unimplemented"])]
    for item in dynamo.graph_break_reasons:
        frame = item.user_stack[-1] if item.user_stack else None
        where = place(frame.filename, frame.lineno or 0, written(frame.name)) if frame else None
        number = re.search(r"gb/gb(\d+)", item.reason)
        reason = bounded(item.reason)
        text = bounded(explained(item.reason, noted, unsupported))
        graph_break = GraphBreak(
            reason=error_text.one_line(reason) or "no reason given",
            id=f"GB{number[1]}" if number else "",
            place=where,
            explanation=" ".join(_labelled("Explanation", text)),
            hint="\n".join(_labelled("Hint", text)),
        )
        found.append(graph_break)
    return _in_calls(found, calls)


def _labelled(label: str, reason: str) -> list[str]:
    """Return the paragraphs with a label (``Explanation``, ``Hint``) in Dynamo's reason."""
    end = r"^\s*(?:Explanation|Hint|Developer debug context): |^\s*$|\Z"
    found = re.findall(rf"^\s*{label}: (.*?)(?={end})", reason, re.MULTILINE | re.DOTALL)
    return [_ENDED.sub("`.", " ".join(paragraph.split())) for paragraph in found]


def _cache_counters() -> dict[str, int]:
    return {
        name: count
        for group in ("inductor", "aot_autograd")
        for name, count in dynamo.counters[group].items()
        if "cache_" in name and name.endswith(("_hit", "_miss", "_bypass", "_saved"))
    }
