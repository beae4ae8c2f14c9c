"""Compare two runs of the same cases: ``python docs/measurements/parallel.py ALONE TOGETHER``.

The first run had one worker, the second had several that took turns to time.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from compilegate.records.observation import WAITING
from compilegate.records.performance import Timing
from compilegate.records.statistics import paired_speedup
from compilegate.runs import files
from compilegate.runs.files import Run


def differences(alone: Run, together: Run) -> Iterator[str]:
    """Yield a line for each verdict that only one of two runs has, or that they do not share."""
    for case, aspect in sorted({*alone.verdicts, *together.verdicts}):
        found = [run.verdicts.get((case, aspect)) for run in (alone, together)]
        outcomes = [one.outcome if one else "missing" for one in found]
        if outcomes[0] != outcomes[1]:
            messages = " | ".join(one.summary for one in found if one)
            yield f"{case} {aspect}: {outcomes[0]}, then {outcomes[1]}: {messages}"


def speeds(alone: Run, together: Run) -> Iterator[str]:
    """Yield a line for each case that both runs timed, with both speedups and what disturbed."""
    for case, first in alone.observations.items():
        second = together.observations.get(case)
        if second is None or first.timing is None or second.timing is None:
            continue
        timings = (first.timing, second.timing)
        one, other = (paired_speedup(timing.eager_ns, timing.compiled_ns) for timing in timings)
        overlap = one.low <= other.high and other.low <= one.high
        yield (
            f"{case}: {one.text}, then {other.text}, {'overlap' if overlap else 'APART'}; "
            f"{_disturbance(first.timing)}, then {_disturbance(second.timing)}; waited "
            f"{second.spent_s.get(WAITING, 0):.0f} s; energy {first.energy}, {second.energy}"
        )


def _disturbance(timing: Timing) -> str:
    return f"{timing.busy:.0%} busy" + (f", {timing.disturbance}" if timing.disturbance else "")


def main() -> None:
    """Print how two runs differ."""
    runs = [files.read(files.find(name, Path(".runs"))) for name in sys.argv[1:3]]
    for run in runs:
        outcomes = [verdict.outcome for verdict in run.verdicts.values()]
        counts = ", ".join(f"{outcomes.count(one)} {one}" for one in sorted({*outcomes}))
        wall = f"{run.closing.wall_s:.0f} s" if run.closing else "incomplete"
        print(f"{run.path.name}: {len(run.observations)} cases, {wall}; {counts}")
    print(*speeds(*runs), sep="\n")
    print("verdicts that differ:", *([*differences(*runs)] or ["none"]), sep="\n")


if __name__ == "__main__":
    main()
