"""Uses a filled cache in a fresh process: as it is, as loaded artifacts, and damaged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from compilegate.observe import vector_instructions
from compilegate.observe.capture import compile_log
from compilegate.observe.measure.contention import OtherProcesses
from compilegate.observe.practices import cache_modules
from compilegate.observe.practices.bench import Bench
from compilegate.observe.practices.cache_folders import (
    READY,
    Lookups,
    in_use,
    lookups,
    note_found,
)
from compilegate.observe.practices.cache_weights import compare_with, other_weights
from compilegate.observe.practices.fresh_process import answer_in, job_in
from compilegate.observe.practices.same_case import rebuilt
from compilegate.observe.practices.unavailable import StepUnavailableError

#: Seconds between two looks for a file of the other process.
_LOOK_S = 0.01


def main(folder: Path) -> None:
    """Take the steps of a job, and answer with them."""
    job = job_in(folder)
    bench = rebuilt(job["case"])
    _warm_toolchain(bench)
    (folder / READY).touch()
    _wait_for(job["begin"])
    work = _read if job["task"] == "read" else _repair
    answer = work(bench, job, Lookups(*job["looked_up"]))
    bench.forget_compiled()
    answer_in(folder, {**answer, "steps": bench.steps})


def _warm_toolchain(bench: Bench) -> None:
    """Load what the first compilation of a process loads, as the process that filled has done."""
    vector_instructions.probe_without_torch()
    torch.compile(lambda x: x + 1)(torch.ones(8, device=bench.builder.case.device))
    compile_log.reset()


def _wait_for(file: str) -> None:
    while not Path(file).exists():
        time.sleep(_LOOK_S)


def _read(bench: Bench, job: dict[str, Any], looked_up: Lookups) -> dict[str, Any]:
    """Use the cache as it is, then fill another one together with the other process."""
    filled, gate = Path(job["filled"]), Path(job["gate"])
    others, answer = OtherProcesses(), {}
    with in_use(bench, filled):
        compiled = bench.build_compiled()
        with bench.step("call in another process, with the filled cache") as facts:
            facts.add(bench.compare(bench.build(), compiled))
            note_found(facts, looked_up.total)
        answer["warm_s"] = compile_log.compile_time(0.0, 0.0).total_s
        answer["warm_busy_share"] = others.share()
        with bench.step("call in another process once more", needed=0) as facts:
            facts.add(bench.compare(bench.build(), compiled))
    gate.touch()
    cache_modules.fill_at_once(bench, Path(job["shared"]))
    with in_use(bench, Path(job["empty"])):
        with bench.step("load_cache_artifacts in another process") as facts:
            _load_artifacts(Path(job["artifacts"]))
            facts.add(bench.compare(bench.build(), bench.build_compiled()))
            note_found(facts, looked_up.total)
        answer["artifacts_s"] = compile_log.compile_time(0.0, 0.0).total_s
    name = "call with other weights in another process"
    with in_use(bench, filled), bench.step(name) as facts:
        compare_with(bench, facts, other_weights(bench))
        note_found(facts, looked_up.total)
    return answer


def _load_artifacts(file: Path) -> None:
    if not hasattr(torch.compiler, "load_cache_artifacts"):
        raise StepUnavailableError(f"torch {torch.__version__} has no load_cache_artifacts")
    torch.compiler.load_cache_artifacts(file.read_bytes())


def _repair(bench: Bench, job: dict[str, Any], looked_up: Lookups) -> dict[str, Any]:
    """Fill a cache together with the other process, then use damaged copies of the filled one."""
    _wait_for(job["gate"])
    cache_modules.fill_at_once(bench, Path(job["shared"]))
    name = "call with truncated graphs in the cache"
    with in_use(bench, Path(job["truncated"])), bench.step(name) as facts:
        facts.add(bench.compare(bench.build(), bench.build_compiled()))
        wanted, found = f"what an empty cache shows ({looked_up})", lookups()
        facts.require("lookups in the cache", wanted, wanted if found == looked_up else str(found))
    return _use_empty_kernels(bench, Path(job["emptied"])) if job["emptied"] else {}


def _use_empty_kernels(bench: Bench, folder: Path) -> dict[str, Any]:
    """Use a cache whose kernels are empty files: compiled code must raise, or be right."""
    with in_use(bench, folder):
        compiled, eager = bench.build_compiled(), bench.build()
        try:
            compared = bench.compare(eager, compiled)
        except Exception:  # what Python raises from the linker differs by device
            return {"empty_kernels_raise": 1.0}
        with bench.step("call with empty kernels in the cache") as facts:
            facts.add(compared)
    return {"empty_kernels_raise": 0.0}
