"""Caches: what one process compiles, the next one finds, and never takes for something else.

This process fills a cache. Two fresh processes use it: one as it is, and as artifacts that it loads
into an empty cache; the other with damaged files. Both fill a third cache at the same time.
https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_tutorial.html
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from compilegate.observe import temporary_folder
from compilegate.observe.capture import compile_log
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.practices import cache_modules, cache_weights, fresh_process
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.cache_folders import (
    READY,
    Lookups,
    in_use,
    lookups,
    with_empty_kernels,
    with_truncated_graphs,
)
from compilegate.observe.practices.same_case import described
from compilegate.records.practice import Practice, Step

WORKER = "compilegate.observe.practices.cache_worker"
#: What the fresh processes do.
_TASKS = ("read", "repair")
#: Seconds between two looks at the fresh processes.
_LOOK_S = 0.1
#: What the answers of the fresh processes consist of, apart from tensors and plain values.
_RECORDS = fresh_process.dataclasses_in(Step)

Answer = dict[str, Any]


def observe(bench: Bench) -> Practice:
    """Fill a cache, use it in fresh processes, and compile what must not be found in it."""
    backend = bench.request.backend
    if backend != "inductor":
        return Practice(unavailable=f"the backend {backend} has no cache")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        looked_up = _fill(bench, folder)
        if not bench.steps[-1].raised:
            _use(bench, folder, looked_up)
    return bench.practice()


def _fill(bench: Bench, folder: Path) -> Lookups:
    """Compile the case in an empty cache, and save the artifacts.

    Returns:
        The lookups. A graph that occurs twice is a hit the second time.
    """
    with bench.progress.alone(), in_use(bench, folder / "filled"):
        others = OtherProcesses()
        with bench.step("compile with an empty cache") as facts:
            facts.add(bench.compare(bench.build(), bench.build_compiled()))
            facts.require("the cache", "a lookup", "a lookup" if lookups().total else "no lookup")
        bench.figures["cold_s"] = compile_log.compile_time(0.0, 0.0).total_s
        bench.figures["cold_busy_share"] = others.share()
        looked_up = lookups()
    if hasattr(torch.compiler, "save_cache_artifacts"):
        saved = torch.compiler.save_cache_artifacts()
        artifacts = b"" if saved is None else saved[0]
        bench.figures["artifacts_bytes"] = len(artifacts)
        (folder / "artifacts").write_bytes(artifacts)
    return looked_up


def _use(bench: Bench, folder: Path, looked_up: Lookups) -> None:
    """Use the cache in two fresh processes, and compile small changes in this one.

    What the first process times is timed alone: it opens the gate for the others. What both do
    before, as importing torch, stops nobody.
    """
    filled, begin, gate = folder / "filled", folder / "begin", folder / "gate"
    with_truncated_graphs(filled, folder / "truncated")
    has_kernels = with_empty_kernels(filled, folder / "emptied")
    names = ("filled", "begin", "gate", "shared", "empty", "artifacts", "truncated")
    job = {
        "case": described(bench),
        "looked_up": dataclasses.astuple(looked_up),
        "emptied": str(folder / "emptied") if has_kernels else "",
        **{name: str(folder / name) for name in names},
    }
    with torch.serialization.safe_globals([*_RECORDS]), ThreadPoolExecutor() as pool:
        started = [pool.submit(_run, {**job, "task": task}, folder / task) for task in _TASKS]
        for task, process in zip(_TASKS, started, strict=True):
            while not ((folder / task / READY).exists() or process.done()):
                _wait(bench)
        with bench.progress.alone():
            begin.touch()
            while not (gate.exists() or started[0].done()):
                _wait(bench)
        gate.touch()
        cache_modules.change_one_thing(bench, folder / "small")
        cache_weights.freeze(bench, filled)
        for process in started:
            while not process.done():
                _wait(bench)
            take(bench, process)


def _wait(bench: Bench) -> None:
    time.sleep(_LOOK_S)
    bench.progress.beat()


def _run(job: Mapping[str, Any], folder: Path) -> Answer:
    """Run the worker. It starts with the cache that knows what this machine's compiler can do."""
    folder.mkdir()
    shared = os.environ.get(temporary_folder.SHARED_CACHE)
    environment = {"TORCHINDUCTOR_CACHE_DIR": shared} if shared else {}
    return fresh_process.run(WORKER, job, folder, _no_beat, environment=environment)


def _no_beat() -> None:
    """Do nothing: the thread that waits for a process does not report progress."""


def take(bench: Bench, process: Future[Answer]) -> None:
    """Add the steps and figures of a fresh process; its end is a step where it has failed."""
    if (error := process.exception()) is not None:
        with bench.step("use the cache in another process"):
            raise error
        return
    answer = process.result()
    bench.steps += answer.pop("steps")
    bench.figures |= answer
