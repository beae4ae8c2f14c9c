"""Computes thresholds for one machine from its healthy runs, as in ``suites/budgets/h200.toml``.

    compilegate thresholds my_gpu.toml .runs/*.jsonl

Each compiled case gets 0.9 of the lowest lower end of its speedup's interval, 1.1 of the highest
memory ratio, and twice the longest cold compilation plus 5 s. If that lets compiled code be slower
than eager, a call may also be slower by 20 µs, whatever the ratio. Rounds on a GPU that was
throttled or shared are left out, and so is the family of known bugs. The new thresholds replace the
file's thresholds for the same case and hardware; everything else in the file stays.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from compilegate.judging import budgets_toml
from compilegate.judging.budgets import BudgetError
from compilegate.judging.budgets_update import add_exact_entries
from compilegate.judging.judge import nothing_compiled
from compilegate.records.case import Case
from compilegate.records.observation import Observation
from compilegate.records.statistics import paired_speedup
from compilegate.runs import files
from compilegate.runs.reader import RunError
from compilegate.zoo import registry

SPEEDUP, MEMORY, COMPILE, COMPILE_S = 0.9, 1.1, 2.0, 5.0
OVERHEAD_US = 20


def thresholds(observations: Iterable[Observation]) -> dict[str, float]:
    """Return the thresholds of a case, given its observations in some runs."""
    lows, ratios, compiles = [], [], []
    for seen in observations:
        if (timing := seen.timing) is not None and not timing.disturbance:
            lows.append(paired_speedup(timing.eager_ns, timing.compiled_ns).low)
        if seen.memory is not None and seen.memory.eager_peak_bytes:
            ratios.append(seen.memory.ratio)
        if seen.compile_time is not None and seen.cold:
            compiles.append(seen.compile_time.total_s)
    found = {}
    if lows:
        found["min_speedup"] = -_rounded_up(-SPEEDUP * min(lows), 2)
        if found["min_speedup"] <= 1:
            found["max_call_overhead_us"] = OVERHEAD_US
    if ratios:
        found["max_memory_ratio"] = _rounded_up(MEMORY * max(ratios), 2)
    if compiles:
        found["max_compile_s"] = _rounded_up(COMPILE * max(compiles) + COMPILE_S, 1)
    return found


def _rounded_up(value: float, digits: int) -> float:
    """Round up to a number of digits; 1.1 × 1 stays 1.1 in spite of binary fractions."""
    return math.ceil(round(value * 10.0**digits, 6)) / 10.0**digits


def main(words: Sequence[str] | None = None) -> None:
    """Write the thresholds of some run files into a budgets file."""
    parser = argparse.ArgumentParser(
        prog="compilegate thresholds",
        description="Compute thresholds of speed, memory and compile time for this machine from "
        "its healthy runs, and write them into a budgets file. They replace the file's thresholds "
        "for the same case and hardware; everything else in the file stays.",
        epilog="Example: compilegate thresholds my_gpu.toml .runs/*.jsonl",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the budgets file to write")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run file, or its name in .runs")
    arguments = parser.parse_args(words)
    try:
        runs = [files.read(files.find(name, Path(".runs"))) for name in arguments.runs]
        if arguments.file.exists():
            budgets_toml.read([arguments.file])  # its errors name the line
    except (RunError, BudgetError) as error:
        parser.error(str(error))
    known_bugs = {name for name, model in registry.load().items() if model.family == "regressions"}
    seen: dict[str, dict[Case, list[Observation]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for observation in run.observations.values():
            case = Case.parse(observation.case)
            device = run.header.environment.device(case.device)
            if device is None or observation.status != "completed" or nothing_compiled(observation):
                continue
            if case.model not in known_bugs:
                seen[device.name][case].append(observation)
    if not seen:
        parser.error("none of these runs has a case that was compiled and is no known bug")
    try:
        for hardware, cases in seen.items():
            updates = {case: thresholds(some) for case, some in cases.items()}
            changes = add_exact_entries(arguments.file, updates, hardware)
            print(
                f"{arguments.file}: {len(changes)} thresholds of {len(updates)} cases on {hardware}"
            )
    except BudgetError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
