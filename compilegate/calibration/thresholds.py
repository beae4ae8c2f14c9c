"""Computes the thresholds of a machine from its own healthy runs.

One run does not show how far runs differ, so two are the fewest. Every threshold is the median of
the runs, with a margin of twice their spread, or of a tenth where they differ less than that.

Bytes and Python calls are counted, not timed. They are the same in each process of a machine, so
that their bounds are narrow, also for models of some hundred kilobytes that compile in a second.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from compilegate.judging.aspects import ASPECTS
from compilegate.judging.budget import DEPENDS_ON
from compilegate.judging.budgets import Machine
from compilegate.judging.completeness import nothing_compiled
from compilegate.records import environment_changes
from compilegate.records.case import Case
from compilegate.records.environment import changes
from compilegate.records.observation import Observation
from compilegate.records.statistics import is_busy, paired_speedup
from compilegate.runs.files import Run

FEWEST_RUNS = 2
#: The margin is the larger of this share of the median and of the spread times the factor.
MARGIN, COMPILE_MARGIN, SPREADS = 0.1, 0.5, 2.0
#: Seconds that compiling may take in addition: what a cold disk or a busy moment adds. At most
#: the median, so that it does not hide a model that takes a second.
COMPILE_SLACK_S = 5.0
#: The least margin of Python calls while compiling, which differ by 0.06% from process to process.
CALLS_MARGIN = 0.02
#: Bytes by which a peak on CPU may be higher, where it has a threshold of its own. The shipped
#: slack is for any machine.
CPU_SLACK_BYTES = 4096
#: Empty compiled calls by which a call may be slower, where the threshold allows slower calls.
OVERHEAD_CALLS = 1
#: Why a figure of a busy machine is left out.
_BUSY = "other processes kept the machine busy"
#: The digits of the value of each key.
_DIGITS = {
    "min_speedup": 2,
    "min_kernel_speedup": 2,
    "max_memory_ratio": 2,
    "max_compile_s": 1,
}


class ThresholdsError(Exception):
    """The runs give no thresholds; the message says why, and what to do."""


@dataclass(frozen=True)
class CaseThresholds:
    """The thresholds of one case.

    Attributes:
        case: The case.
        machine: What they hold on.
        measured: What the runs measured, by key of a budget, from the lowest to the highest value.
        values: The thresholds by key.
        missing: Why speed or compile time has no threshold, by key.
    """

    case: Case
    machine: Machine
    measured: Mapping[str, Sequence[float]]
    values: Mapping[str, float]
    missing: Mapping[str, str]


def of_runs(
    runs: Sequence[Run],
    left_out: frozenset[str] = frozenset(),
    *,
    any_host: bool = False,
    margin: float = MARGIN,
) -> list[CaseThresholds]:
    """Return the thresholds of every case that at least two runs measured.

    Args:
        runs: Healthy runs of one machine.
        left_out: Models that get no thresholds.
        any_host: Whether the runs may come from several hosts with the same GPU. Only what does not
            depend on the host gets a threshold then.
        margin: The least margin, as a share of the median.

    Raises:
        ThresholdsError: There are too few runs, they are of several machines or environments, or
            one of them compiled nothing.
    """
    _check(runs, any_host=any_host)
    measured: dict[Case, dict[str, list[float]]] = {}
    unmeasured: dict[Case, dict[str, Counter[str]]] = {}
    for run in runs:
        cases = [case for case in _healthy(run) if case.model not in left_out]
        if not cases:
            raise ThresholdsError(
                f"{run.path}: nothing in it was compiled, or only models that get no thresholds: "
                "leave it out, or observe cases of the zoo again"
            )
        for case in cases:
            figures, reasons = _figures(run.observations[case.id])
            for key, value in figures.items():
                if not (any_host and DEPENDS_ON[key] == "host"):
                    measured.setdefault(case, {}).setdefault(key, []).append(value)
            for key, reason in reasons.items():
                unmeasured.setdefault(case, {}).setdefault(key, Counter())[reason] += 1
    environment = runs[0].header.environment
    found = []
    for case, by_key in measured.items():
        kept = {key: sorted(some) for key, some in by_key.items() if len(some) >= FEWEST_RUNS}
        machine = Machine.of(environment, case.device)
        if any_host:
            machine = Machine(machine.hardware)
        if values := thresholds(kept, margin):
            if case.device == "cpu" and "max_memory_ratio" in values:
                values["memory_slack_bytes"] = CPU_SLACK_BYTES
            why = {} if any_host else unmeasured.get(case, {})
            missing = _missing(kept, values, why, len(runs))
            found.append(CaseThresholds(case, machine, kept, values, missing))
    if not found:
        raise ThresholdsError(
            "no case was compiled and measured in two of these runs: observe the same cases in each"
        )
    return found


def thresholds(measured: Mapping[str, Sequence[float]], margin: float = MARGIN) -> dict[str, float]:
    """Return the threshold for each key, given what some runs measured.

    A speedup in which the runs differ by half of their median, or more, gets none.
    """
    found: dict[str, float] = {}
    for key, values in measured.items():
        typical = statistics.median(values)
        if not typical:  # a share of nothing is no margin
            continue
        spread = (max(values) - min(values)) / typical
        least = {"max_compile_s": max(margin, COMPILE_MARGIN), "max_compile_calls": CALLS_MARGIN}
        share = max(least.get(key, margin), SPREADS * spread)
        if key == "max_compile_calls":
            found[key] = math.ceil(round(typical * (1 + share), 6))
        elif key.startswith("max_"):
            slack = min(COMPILE_SLACK_S, typical) if key == "max_compile_s" else 0.0
            found[key] = -_rounded_down(-typical * (1 + share) - slack, _DIGITS[key])
        elif share < 1:
            found[key] = _rounded_down(typical * (1 - share), _DIGITS[key])
    if found.get("min_speedup", math.inf) <= 1:
        found["max_call_overhead"] = OVERHEAD_CALLS
    return found


def _rounded_down(value: float, digits: int) -> float:
    """Round down to a number of digits; 0.9 × 2 stays 1.8 in spite of binary fractions."""
    return math.floor(round(value * 10.0**digits, 6)) / 10.0**digits


def _check(runs: Sequence[Run], *, any_host: bool) -> None:
    if len(runs) < FEWEST_RUNS:
        raise ThresholdsError(
            "one run does not show how far runs differ: give two or more, observed separately on "
            "this machine"
        )
    first, *others = runs
    for run in others:
        if differing := [*_differing(first, run, any_host=any_host)]:
            raise ThresholdsError(
                f"{first.path} and {run.path} are not of one machine and environment: "
                f"{', '.join(differing)}"
            )
    if any(run.header == other.header for run, other in combinations(runs, 2)):
        raise ThresholdsError(
            "the same run was given twice: thresholds need two runs that were observed separately"
        )


def _differing(ours: Run, theirs: Run, *, any_host: bool) -> Iterator[str]:
    """Yield how machine, environment and backend of two runs differ."""
    environments = ours.header.environment, theirs.header.environment
    yield from map(str, environment_changes.deciding(*environments))
    on_gpu = any(Case.parse(case).device != "cpu" for case in ours.observations)
    for change in environment_changes.compare(*environments):
        of_host = any_host and on_gpu and change.name.startswith("cpu")
        if change.weight == "hardware" and not of_host:
            yield str(change)
    yield from changes({"backend": ours.header.backend}, {"backend": theirs.header.backend})


def _healthy(run: Run) -> list[Case]:
    """Return the cases that completed, and whose numbers are right."""
    wrong = {
        case
        for (case, aspect), verdict in run.verdicts.items()
        if verdict.outcome == "failed" and ASPECTS[aspect].group in ("numerics", "state")
    }
    return [
        case
        for observation in run.observations.values()
        if observation.status == "completed" and not nothing_compiled(observation)
        if observation.case not in wrong
        if run.header.environment.device((case := Case.parse(observation.case)).device)
    ]


def _missing(
    kept: Mapping[str, object],
    values: Mapping[str, float],
    unmeasured: Mapping[str, Counter[str]],
    runs: int,
) -> dict[str, str]:
    """Return why speed or compile time has no threshold, by key."""
    found = {}
    for key in ("min_speedup", "max_compile_s"):
        if key in kept and key not in values:
            found[key] = "the runs differ by half of their median or more"
        elif key not in values and key in unmeasured:
            ((reason, count),) = unmeasured[key].most_common(1)
            found[key] = f"{reason} in {count} of {runs} runs"
    return found


def _figures(seen: Observation) -> tuple[dict[str, float], dict[str, str]]:
    """Return by key of a budget what a case measured on a quiet machine, and why no more."""
    found: dict[str, float] = {}
    reasons: dict[str, str] = {}
    timing, compiling = seen.timing, seen.compile_time
    if timing is None:
        reasons["min_speedup"] = "no call was timed"
    elif timing.disturbance:
        reasons["min_speedup"] = timing.disturbance
    else:
        if timing.kernel_speedup is not None:
            found["min_kernel_speedup"] = timing.kernel_speedup
        if is_busy(timing.busy, timing.threads):
            reasons["min_speedup"] = _BUSY
        else:
            found["min_speedup"] = paired_speedup(timing.eager_ns, timing.compiled_ns).value
    if seen.memory is not None and seen.memory.eager_peak_bytes:
        found["max_memory_ratio"] = seen.memory.ratio
    if compiling is None or not seen.cold:
        reasons["max_compile_s"] = "caches were not empty"
    elif is_busy(compiling.busy):
        reasons["max_compile_s"] = _BUSY
    else:
        found["max_compile_s"] = compiling.total_s
    if seen.compile_work is not None:
        found["max_compile_calls"] = seen.compile_work.total
    return found, reasons
