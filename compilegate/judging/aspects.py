"""The registry of aspects: each entry has everything that differs from aspect to aspect.

An aspect is one property of a case that compilegate judges. Its rule and its test are the module
``suites/test_NAME.py``. :data:`ASPECTS` says what a suite wants observed, which budget keys it has,
how a change of its verdict counts in an upgrade, and where reports show it. The fields of
:class:`Budget` are the keys of budgets files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.records.case import Case
from compilegate.records.observation import WANTS, Want

if TYPE_CHECKING:  # reports of stored runs need no pytest
    import pytest

Group = Literal["numerics", "state", "capture", "cost", "upgrade"]
#: How a new verdict on a case counts when two runs are compared:
#: *verdict*: passed before and failing now is *broken*;
#: *threshold*: beyond a threshold on a measured quantity is *worse*, and not every run judges it;
#: *pairs*: pairs of live processes decide, verdicts of two sessions are indicative;
#: *itself*: the aspect is about the change.
Change = Literal["verdict", "threshold", "pairs", "itself"]
#: What a session needs beyond cases: something to compare with, or pairs of processes.
Needs = Literal["", "baseline", "pairs"]


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
        max_slowdown: Growth of a compiled call's time, from version to version, that passes; 0.03
            is 3%. So are the next ones.
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


@dataclass(frozen=True)
class Aspect:
    """One property of a case that compilegate judges.

    Attributes:
        name: As verdicts and budgets have it; its suite is ``suites/test_NAME.py``.
        group: The group that it belongs to.
        letter: Stands for it where a case failed in it.
        column: The heading of its column in reports; empty where it has none.
        wants: What has to be observed.
        keys: The keys of a budget that bear on it.
        change: How a change of its verdict counts in an upgrade.
        of_machine: Whether its verdict says nothing about another machine.
        tensors: The group of tensors of a call that it judges.
        applies: Which cases have it; all of them by default.
        cold: Whether only cases that compile in an empty cache have it.
        sampled: Whether only the cases have it whose compile work is counted.
        needs: What the session needs for it to be collected.
        gone: Whether its test is for the cases that the session no longer has.
    """

    name: str
    group: Group
    letter: str
    column: str
    wants: tuple[Want, ...]
    keys: tuple[str, ...] = ()
    change: Change = "verdict"
    of_machine: bool = False
    tensors: Literal["", "outputs", "gradients", "state"] = ""
    applies: Callable[[Case], bool] = lambda case: True
    cold: bool = False
    sampled: bool = False
    needs: Needs = ""
    gone: bool = False

    @property
    def is_occasional(self) -> bool:
        """Whether some runs lack it, such as compile time with a warm cache."""
        return self.change in ("threshold", "pairs")

    @classmethod
    def of(cls, node: pytest.Item | pytest.Collector) -> Self | None:
        """The aspect that a test judges; None if it judges none."""
        mark = node.get_closest_marker("aspect")
        return None if mark is None else cls.of_mark(mark)

    @classmethod
    def of_mark(cls, mark: pytest.Mark) -> Self:
        """The aspect that a marker names, with the fields that the marker sets for its test.

        Raises:
            ValueError: The registry has no such aspect.
        """
        (name,) = mark.args
        if name not in ASPECTS:
            raise ValueError(f"unknown aspect {name!r}; enter it in compilegate/judging/aspects.py")
        return replace(ASPECTS[name], **mark.kwargs)  # type: ignore[return-value]


def _trains(case: Case) -> bool:
    return case.phase == "train"


def _on_gpu(case: Case) -> bool:
    return case.device == "cuda"


def _uses_cuda_graphs(case: Case) -> bool:
    return case.uses_cuda_graphs


_CAPTURE: tuple[Want, ...] = ("capture",)
_VARIED: tuple[Want, ...] = ("capture", "vary")
_TIMED: tuple[Want, ...] = ("capture", "time")
_COUNTED: tuple[Want, ...] = ("capture", "compile_work")
_WORK_KEYS = ("max_compile_calls", "max_compile_calls_growth")
#: A plain session has no warm start to compare with.
_COMPARED: tuple[Want, ...] = tuple(want for want in WANTS if want != "start")

#: All aspects by name. Reports show the first first: wrong answers, then lost graphs, then costs.
ASPECTS: dict[str, Aspect] = {
    aspect.name: aspect
    for aspect in (
        Aspect("forward", "numerics", "F", "forward", _VARIED, tensors="outputs"),
        Aspect(
            "gradients", "numerics", "G", "gradients", _VARIED, tensors="gradients", applies=_trains
        ),
        Aspect("side_effects", "state", "S", "", _VARIED, tensors="state"),
        Aspect("randomness", "state", "R", "", ("capture", "random")),
        Aspect(
            "graph_breaks",
            "capture",
            "B",
            "breaks",
            _CAPTURE,
            keys=("graph_breaks", "max_graph_breaks"),
        ),
        Aspect(
            "recompiles",
            "capture",
            "C",
            "recompiles",
            _VARIED,
            keys=("recompiles", "recompile_guards"),
        ),
        Aspect(
            "cuda_graphs",
            "capture",
            "U",
            "",
            _CAPTURE,
            keys=("cudagraph_skips",),
            applies=_uses_cuda_graphs,
        ),
        Aspect(
            "speedup",
            "cost",
            "P",
            "speedup",
            _TIMED,
            keys=("min_speedup", "max_call_overhead", "min_kernel_speedup", "kernel_slack_us"),
            change="pairs",
            of_machine=True,
        ),
        Aspect(
            "compile_time",
            "cost",
            "T",
            "compile",
            _CAPTURE,
            keys=("max_compile_s",),
            change="threshold",
            of_machine=True,
            cold=True,
        ),
        Aspect(
            "compile_work", "cost", "K", "", _COUNTED, _WORK_KEYS, change="itself", sampled=True
        ),
        Aspect(
            "memory",
            "cost",
            "M",
            "memory",
            ("capture", "memory"),
            keys=("max_memory_ratio", "memory_slack_bytes"),
            change="threshold",
        ),
        Aspect(
            "energy",
            "cost",
            "J",
            "",
            ("capture", "energy"),
            keys=("max_energy_ratio", "energy_slack_j"),
            change="threshold",
            of_machine=True,
            applies=_on_gpu,
        ),
        Aspect("eager", "numerics", "A", "", _VARIED, change="itself", needs="baseline"),
        Aspect(
            "slowdown",
            "cost",
            "L",
            "",
            _TIMED,
            keys=("max_slowdown", "max_p95_slowdown"),
            change="itself",
            needs="pairs",
        ),
        Aspect(
            "memory_growth",
            "cost",
            "Y",
            "",
            ("capture", "memory"),
            keys=("max_memory_growth", "max_reserved_growth", "max_kept_growth"),
            change="itself",
            needs="pairs",
        ),
        Aspect(
            "compile_slowdown",
            "cost",
            "O",
            "",
            ("capture", "start"),
            keys=("max_compile_slowdown", "max_warm_start_slowdown"),
            change="itself",
            needs="pairs",
        ),
        Aspect(
            "energy_growth",
            "cost",
            "N",
            "",
            ("capture", "energy"),
            keys=("max_energy_growth",),
            change="itself",
            needs="pairs",
            applies=_on_gpu,
        ),
        Aspect("upgrade", "upgrade", "W", "", _COMPARED, change="itself", needs="baseline"),
    )
}


def aspect_named(name: str) -> Aspect:
    """The aspect of a recorded verdict, also of one that another version of compilegate had."""
    return ASPECTS.get(name) or Aspect(name, "upgrade", "?", "", ())
