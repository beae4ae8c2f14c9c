"""Sessions over faults of cost, judged by budgets that come from measuring the sound twins.

While other processes keep the machine busy, verdicts on costs are inconclusive. The fixture
``costs`` then measures all twins and faults again. It never repeats a conclusive measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from compilegate.records.observation import Observation
from compilegate.records.statistics import BUSY, paired_speedup
from compilegate.runs import files
from tests.faults.catalogue import COSTS, Fault
from tests.faults.sessions import DECOMPOSED, Planted, finished, observe

SUITES = tuple(f"suites/test_{aspect}.py" for aspect in ("speedup", "memory", "compile_time"))
SLOW_COMPILER = Path(__file__).with_name("slow_compiler.py")
#: Seconds by which compile time may differ between two processes on a busy machine.
MARGIN_S = 6.0

#: A fault, and the name of the victim that it is planted in.
Pair = tuple[Fault, str]


@dataclass
class Judged:
    """Faults of cost and their twins, judged by the measured cost of the twins.

    Attributes:
        measured: The session over the twins that gives the thresholds.
        planted: The session over faults and twins.
        compiling: The session in which compiling takes longer.
        sound: The session over the twins alone, which judges compile times.
    """

    measured: Planted
    planted: Planted
    compiling: Planted
    sound: Planted

    def of(self, fault: Fault) -> Planted:
        """Return the session in which a fault was planted."""
        return self.compiling if fault.shipped else self.planted

    def twin_of(self, fault: Fault) -> Planted:
        """Return the session that judged the twin of a fault."""
        return self.sound if fault.shipped else self.planted

    def undecided(self) -> list[str]:
        """Return a line for each inconclusive verdict and each measurement on a busy machine."""
        runs = (self.planted.run, self.compiling.run, self.sound.run)
        verdicts = [verdict for run in runs for verdict in run.verdicts.values()]
        disturbed = [seen for seen in self.measured.run.observations.values() if _was_busy(seen)]
        return [
            *(f"{v.case}: {v.summary}" for v in verdicts if v.outcome == "inconclusive"),
            *(
                f"{seen.case}: measured while other processes kept the processor busy"
                for seen in disturbed
            ),
        ]


def judge(folder: Path, pairs: Iterable[Pair], backend: str = DECOMPOSED) -> Judged:
    """Measure the twins, and judge twins and faults by thresholds from that measurement."""
    pairs = list(pairs)
    twins = [fault.twin(victim) for fault, victim in pairs]
    timed = [(fault, victim) for fault, victim in pairs if not fault.shipped]
    compiled = [(fault, victim) for fault, victim in pairs if fault.shipped]

    measured = observe(folder / "measured", twins, suites=SUITES, backend=backend)
    budgets = folder / "budgets.toml"
    budgets.write_text("\n".join(_budgets(pairs, measured.run)))
    by_them = ("--budgets", str(budgets))

    cases = [case for f, v in timed for case in (f.case(v), f.twin(v))]
    planted = observe(folder / "planted", cases, *by_them, suites=SUITES, backend=backend)
    cases = [fault.case(victim) for fault, victim in compiled]
    compile_time = SUITES[2:]
    sound = observe(folder / "sound", cases, *by_them, suites=compile_time, backend=backend)
    slow = observe(
        folder / "slow", cases, *by_them, suites=compile_time, backend=backend, zoo=SLOW_COMPILER
    )
    return Judged(measured, planted, slow, sound)


def judged(folder: Path) -> Judged:
    """Read the sessions that :func:`judge` left in a folder."""
    return Judged(*(finished(folder / name) for name in ("measured", "planted", "slow", "sound")))


def _was_busy(seen: Observation) -> bool:
    return any(one is not None and one.busy > BUSY for one in (seen.timing, seen.compile_time))


def _budgets(pairs: Iterable[Pair], run: files.Run) -> Iterator[str]:
    """Yield budget entries for each fault and twin, a tenth above the cost of the twin."""
    entries = dict.fromkeys(
        (case.partition("-")[0], fault.twin(victim))
        for fault, victim in pairs
        for case in (fault.case(victim), fault.twin(victim))
    )
    for model, twin in entries:
        yield f'[[budget]]\nmodel = "{model}"'
        yield from _thresholds(run.observations[twin])


def _thresholds(seen: Observation) -> Iterator[str]:
    assert seen.compile_time is not None
    yield f"max_compile_s = {seen.compile_time.total_s + MARGIN_S}"
    yield "max_call_overhead = 0\nmemory_slack_bytes = 0"
    if seen.timing is not None:
        low = paired_speedup(seen.timing.eager_ns, seen.timing.compiled_ns).low
        yield f"min_speedup = {0.9 * low}"
    if seen.memory is not None:
        yield f"max_memory_ratio = {1.1 * seen.memory.ratio}"


def tiny_pairs() -> list[Pair]:
    """Return each fault of cost with its tiny victim."""
    return [(fault, fault.victim) for fault in COSTS]


def zoo_pairs() -> list[Pair]:
    """Return each fault of cost with each of its models from the shipped zoo."""
    return [(fault, victim) for fault in COSTS for victim in fault.zoo]
