"""What a case is allowed. The fields of :class:`Budget` are the keys of budgets files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from compilegate.judging.expected_failure import ExpectedFailure


@dataclass(frozen=True)
class AllowedBreak:
    """A known graph break: its reason contains ``reason``, its file ends in ``place``."""

    reason: str = ""
    place: str = ""

    def __str__(self) -> str:
        return " at ".join(part for part in (self.reason or "any reason", self.place) if part)


#: What a budgets file may give for a key.
KeyKind = Literal["count", "number", "texts", "breaks"]


#: What a measured value depends on: nothing of the machine; its processor or GPU; or this *and* the
#: host, which launches kernels and compiles.
DependsOn = Literal["", "hardware", "host"]


def _key(kind: KeyKind, *, default: Any = None, depends_on: DependsOn = "") -> Any:
    """A field of :class:`Budget` that budgets files set.

    Args:
        kind: What its value is.
        default: Its value where no file sets it.
        depends_on: What a measured value depends on.
    """
    return field(default=default, metadata={"kind": kind, "depends_on": depends_on})


@dataclass(frozen=True)
class Budget:
    """What a case is allowed.

    Attributes:
        graph_breaks: Known graph breaks, by reason and place.
        max_graph_breaks: Distinct graph breaks allowed in addition to the known ones.
        recompiles: Recompilations of one code object allowed in addition to those of the dynamic
            setting.
        recompile_guards: Parts of guards that are known to fail: such recompilations do not count.
        cudagraph_skips: Parts of known reasons for which CUDA graphs are not used.
        min_speedup: Least speedup of a call over eager.
        max_call_overhead: By how many *empty compiled calls* a compiled call may be slower than
            eager, whatever the ratio. Guards and dispatch cost that much on the machine that
            measured, which shows on models of a few kernels.
        min_kernel_speedup: Least speedup of the GPU's kernels over eager's.
        kernel_slack_us: Microseconds by which kernels may be slower, whatever the ratio.
        max_compile_s: Most seconds of cold compile time.
        max_memory_ratio: Most peak memory over eager's.
        memory_slack_bytes: Bytes by which the peak may be higher whatever the ratio.
        max_compile_calls: Most Python calls while it compiles.
        max_compile_calls_growth: Most growth of these calls over the PyTorch in use: 0.02 is 2%.
        max_energy_ratio: Most energy of a call over eager's.
        energy_slack_j: Joules by which a call may take more whatever the ratio.
        min_optimizer_speedup: Least speedup of a compiled optimizer's step over the eager one's.
        max_checkpointed_memory_ratio: Most peak memory of a step with activation checkpointing over
            one without, both compiled.
        min_regional_warmup: Least ratio of seconds of compiling: the whole model's over those of
            its blocks.
        min_regional_throughput: Least ratio of calls a second: with compiled blocks over with the
            whole model compiled.
        min_reduce_overhead_throughput: Least ratio of calls a second: in the mode reduce-overhead
            over in the mode default.
        min_serving_throughput: Least ratio of calls a second that threads make: of compiled code
            over eager.
        max_serving_p95: Most ratio of the 95th percentile of these calls' times, likewise.
        min_cache_speedup: Least ratio of seconds of compiling: with an empty cache over with one
            that another process filled.
        min_generation_speedup: Least ratio of generated tokens a second: compiled over eager.
        max_metric_loss: By how much a team's metric may fall in compiled code, in its own unit.
        max_slowdown: Largest growth of a compiled call's time between versions, as a share: 0.03 is
            3%. The next ones are shares, too.
        max_p95_slowdown: Of the 95th percentile of compiled calls.
        max_memory_growth: Of the peak memory of a compiled call.
        max_reserved_growth: Of what a GPU's allocator reserves for it.
        max_kept_growth: Of what stays allocated after the first compiled call.
        max_compile_slowdown: Of the seconds of compiling in an empty cache.
        max_warm_start_slowdown: Of the seconds of the first call with warm caches.
        max_energy_growth: Of the energy of a compiled call.
        elsewhere: Thresholds for other hardware, which are not judged on this: key → its name.
        expected_failures: Failures that are expected.
    """

    graph_breaks: tuple[AllowedBreak, ...] = _key("breaks", default=())
    max_graph_breaks: int = _key("count", default=0)
    recompiles: int = _key("count", default=0)
    recompile_guards: tuple[str, ...] = _key("texts", default=())
    cudagraph_skips: tuple[str, ...] = _key("texts", default=())
    min_speedup: float | None = _key("number", depends_on="host")
    max_call_overhead: float = _key("number", default=0.0)
    min_kernel_speedup: float | None = _key("number", depends_on="hardware")
    kernel_slack_us: float = _key("number", default=0.0)
    max_compile_s: float | None = _key("number", depends_on="host")
    max_memory_ratio: float | None = _key("number", depends_on="hardware")
    memory_slack_bytes: int = _key("count", default=0)
    max_compile_calls: int | None = _key("count")
    max_compile_calls_growth: float = _key("number", default=0.02)
    max_energy_ratio: float | None = _key("number", depends_on="hardware")
    energy_slack_j: float = _key("number", default=0.0)
    min_optimizer_speedup: float | None = _key("number", depends_on="host")
    max_checkpointed_memory_ratio: float = _key("number", default=1.0)
    min_regional_warmup: float | None = _key("number", depends_on="host")
    min_regional_throughput: float | None = _key("number", depends_on="host")
    min_reduce_overhead_throughput: float | None = _key("number", depends_on="host")
    min_serving_throughput: float | None = _key("number", depends_on="host")
    max_serving_p95: float | None = _key("number", depends_on="host")
    min_cache_speedup: float | None = _key("number", depends_on="host")
    min_generation_speedup: float | None = _key("number", depends_on="host")
    max_metric_loss: float = _key("number", default=0.0)
    max_slowdown: float = _key("number", default=0.03)
    max_p95_slowdown: float = _key("number", default=0.25)
    max_memory_growth: float = _key("number", default=0.05)
    max_reserved_growth: float = _key("number", default=0.1)
    max_kept_growth: float = _key("number", default=0.05)
    max_compile_slowdown: float = _key("number", default=0.15)
    max_warm_start_slowdown: float = _key("number", default=0.15)
    max_energy_growth: float = _key("number", default=0.1)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    expected_failures: tuple[ExpectedFailure, ...] = ()

    def why_unjudged(self, key: str) -> str:
        """Return why a key has no threshold here."""
        other = self.elsewhere.get(key)
        return f"not judged, the threshold is for {other}" if other else "not judged, no threshold"


#: The keys of budgets files, and the kind of value that each takes.
KEYS: dict[str, KeyKind] = {f.name: f.metadata["kind"] for f in fields(Budget) if f.metadata}
#: What a measured value of each key depends on.
DEPENDS_ON: dict[str, DependsOn] = {
    f.name: f.metadata["depends_on"] for f in fields(Budget) if f.metadata
}
