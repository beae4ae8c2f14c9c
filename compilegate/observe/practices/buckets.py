"""Buckets: compile a model at a few sizes, and pad each input to one of them.

As many graphs are compiled as there are buckets, and padded calls compile nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from compilegate.observe.capture import compile_log
from compilegate.observe.capture.compile_log import CompileLog
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.practices import padding
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.sized_calls import SizedCalls
from compilegate.observe.practices.unavailable import StepUnavailableError
from compilegate.observe.practices.varied_sizes import VariedSizes, text_of
from compilegate.records.observation import Place


class Compiled(NamedTuple):
    """What a model compiles at one size.

    Attributes:
        objects: How many code objects, recompilations included.
        recompiles: Whether one of them is compiled more than once.
        breaks: Where the graph breaks, or a frame runs in eager.
    """

    objects: int
    recompiles: bool
    breaks: frozenset[Place | None]


def observe(bench: Bench, sizes: VariedSizes, options: Mapping[str, Any]) -> Compiled | None:
    """Compile each bucket, then pad each size to the smallest bucket that holds it.

    The first sizes are the small bucket. The large one holds each dimension's largest size, rounded
    up to a power of two.

    Args:
        bench: Keeps the steps.
        sizes: The sizes.
        options: The arguments of ``torch.compile``, with ``dynamic=False``.

    Returns:
        What the first bucket compiles; None if that fails.
    """
    calls = SizedCalls(bench, options)
    log = CompileLog()
    with bench.step(f"dynamic=False, {text_of(sizes.first)}") as facts:
        facts.add(calls.compare(sizes.first))
        facts.require_graph(is_captured=compile_log.graphs() > 0)
    if bench.has_failed:
        return None
    log.after_call(0)
    seen = log.capture()
    compiled = Compiled(
        objects=compile_log.compilations(),
        recompiles=any(one.reason for one in seen.compilations),
        breaks=frozenset(one.place for one in (*seen.breaks, *seen.fallbacks)),
    )
    names = _padded(bench, sizes)
    large = {n: _large(sizes, n) if n in names else size for n, size in sizes.first.items()}
    buckets = [sizes.first] if large == sizes.first else [sizes.first, large]
    for bucket in buckets[1:]:
        with bench.progress.alone():
            others, before_s = OtherProcesses(), _compile_s()
            with bench.step(f"warm up {text_of(bucket)}", needed=compiled.objects) as facts:
                facts.add(calls.compare(bucket))
            # The first bucket may find its code in the cache, where the case was compiled.
            bench.figures["further_bucket_compile_s"] = _compile_s() - before_s
            bench.figures["further_bucket_busy_share"] = others.share()
    if names:
        bench.figures["buckets"] = len(buckets)
    for wanted in sizes.others(*names):
        bucket = next(one for one in buckets if all(one[n] >= wanted[n] for n in wanted))
        name = f"pad {sizes.change(wanted)} to {text_of(bucket)}"
        with bench.step(name, needed=0) as facts:
            facts.add(calls.compare_padded(wanted, bucket))
    return compiled


def _padded(bench: Bench, sizes: VariedSizes) -> list[str]:
    """Return the dimensions that a user may pad. A step says why the others must not be."""
    found = []
    for name in sizes.declared:
        small = sizes.with_size(name, min(sizes.vary[name]))
        large = sizes.with_size(name, _large(sizes, name))
        if not (reason := padding.reason_against(bench.builder, small, large)):
            found.append(name)
            continue
        with bench.step(f"pad {name}"):
            raise StepUnavailableError(reason)
    return found


def _compile_s() -> float:
    """Return the seconds of compiling since the last reset."""
    return compile_log.compile_time(0.0, 0.0).total_s


def _large(sizes: VariedSizes, name: str) -> int:
    """Return the power of two that holds every size of a dimension."""
    return 1 << (max(sizes.vary[name]) - 1).bit_length()
