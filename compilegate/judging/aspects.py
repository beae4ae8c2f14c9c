"""The registry of aspects: each entry has everything that differs from aspect to aspect.

An aspect is one property of a case that compilegate judges. Its rule and its test are the module
``suites/test_NAME.py``. :data:`ASPECTS` says what a suite wants observed, which budget keys it has,
how a change of its verdict counts in an upgrade, and where reports show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

from compilegate.records.case import Case
from compilegate.records.observation import PROBING, WANTS, Want
from compilegate.records.practice import PRACTICES, PracticeName

if TYPE_CHECKING:  # reports of stored runs need no pytest
    import pytest

Group = Literal["numerics", "state", "capture", "cost", "practice", "upgrade"]
#: How a new verdict on a case counts when two runs are compared:
#: *verdict*: passed before and failing now is *broken*;
#: *threshold*: beyond a threshold on a measured quantity is *worse*, and not every run judges it;
#: *pairs*: pairs of live processes decide, verdicts of two sessions are indicative;
#: *itself*: the aspect is about the change.
Change = Literal["verdict", "threshold", "pairs", "itself"]
#: What a session needs beyond cases: something to compare with, or pairs of processes.
Needs = Literal["", "baseline", "pairs"]


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
        of_machine: Whether its verdict holds only for the machine that measured it.
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
    def practice(self) -> PracticeName | None:
        """The practice that it judges, which only some cases are observed for."""
        return next((name for name in PRACTICES if name == self.name), None)

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
_CHECKPOINTING_KEYS = ("max_checkpointed_memory_ratio", "memory_slack_bytes")
_REGIONAL_KEYS = ("min_regional_warmup", "min_regional_throughput")
_SERVING_KEYS = ("min_serving_throughput", "max_serving_p95")
#: A plain session has no warm start to compare with. The plan adds the probing calls.
_ADDED: tuple[Want, ...] = ("start", *PROBING)
_COMPARED: tuple[Want, ...] = tuple(want for want in WANTS if want not in _ADDED)


def _practice(
    name: PracticeName,
    letter: str,
    keys: tuple[str, ...] = (),
    *,
    wants: tuple[Want, ...] = (),
    applies: Callable[[Case], bool] = lambda case: True,
) -> Aspect:
    """Return the aspect of a practice, which is observed of the cases that ask for it."""
    return Aspect(name, "practice", letter, "", ("capture", *wants, name), keys, applies=applies)


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
        _practice("checkpoints", "k"),
        _practice("training_loop", "t", applies=_trains),
        _practice("compiled_optimizer", "o", ("min_optimizer_speedup",), applies=_trains),
        _practice("activation_checkpointing", "m", _CHECKPOINTING_KEYS, applies=_trains),
        _practice("compiled_autograd", "u", applies=_trains),
        _practice("distributed", "D", applies=_trains),
        _practice("regional", "r", _REGIONAL_KEYS),
        _practice("caches", "h", ("min_cache_speedup",), wants=("time",)),
        _practice("backends", "b", ("min_reduce_overhead_throughput",)),
        _practice("dynamic_strategies", "d"),
        _practice("export", "e"),
        _practice("generation", "g", ("min_generation_speedup",)),
        _practice("serving", "v", _SERVING_KEYS),
        _practice("metric", "c", ("max_metric_loss",)),
        _practice("twins", "w"),
        _practice("hazards", "z"),
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
