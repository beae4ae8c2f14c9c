"""The tables of a report that explain a cost: the time of a call, its memory, compiling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compilegate.records.observation import Observation
from compilegate.records.part import Held, Kernel

#: As many functions are listed that compiling calls.
_FUNCTIONS = 10


def kernels(found: Sequence[Kernel]) -> Iterator[str]:
    """Yield a table of kernels, with the time of a call on both sides; nothing if there is none."""
    if not found:
        return
    yield "PyTorch's profiler, microseconds per call, without what a kernel or operator calls:"
    yield ""
    yield "| kernel | eager | compiled |"
    yield "| --- | --- | --- |"
    for kernel in found:
        name = kernel.name.replace("|", "/")
        yield f"| `{name}` | {kernel.eager_us:.1f} | {kernel.compiled_us:.1f} |"


def held(found: Sequence[Held]) -> Iterator[str]:
    """Yield a table of what memory holds at the peak of a call; nothing if there is none."""
    if not found:
        return
    yield "PyTorch's profiler: blocks that a call has allocated and not freed at its peak, by the"
    yield "innermost operator that allocated them:"
    yield ""
    yield "| operator | bytes of each | blocks, eager | blocks, compiled |"
    yield "| --- | --- | --- | --- |"
    for block in found:
        name = block.operator.replace("|", "/")
        yield f"| `{name}` | {block.size} | {block.eager} | {block.compiled} |"


def compiling(observation: Observation) -> Iterator[str]:
    """Yield the phases of compiling, as the run recorded them; nothing if it did not."""
    seen, work = observation.compile_time, observation.compile_work
    counts = dict[str, int]()
    if work is not None:
        counts = {name: getattr(work, name) for name in (*_PHASES, "rest")}
    if seen is None and work is None:
        return
    yield "As the run recorded it, in the first call. The phases do not overlap:"
    yield ""
    yield "| phase | seconds | calls of Python functions |"
    yield "| --- | --- | --- |"
    for name, title in (*_PHASES.items(), ("rest", "everything else in the call")):
        if name == "rest" and seen is not None:
            spent: float | None = max(seen.first_call_s - seen.total_s, 0.0)
        else:
            spent = getattr(seen, f"{name}_s", None)
        seconds = "" if spent is None else f"{spent:.2f}"
        yield f"| {title} | {seconds} | {counts.get(name, '')} |"
    if work is not None and work.functions:
        yield ""
        yield "The functions with the most calls:"
        yield ""
        most = sorted(work.functions.items(), key=lambda item: -item[1])[:_FUNCTIONS]
        yield from (f"- `{name}`: {count}" for name, count in most)


#: The phases of compiling, by the name of their fields.
_PHASES = {
    "dynamo": "Dynamo",
    "aot": "AOTAutograd",
    "inductor": "Inductor: lowering and scheduling",
    "codegen": "code generation, and the compilers that it calls",
}
