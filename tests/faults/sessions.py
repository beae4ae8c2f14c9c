"""Sessions that run the suites over planted faults and their sound twins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from compilegate.runs import files
from tests.faults.catalogue import Fault
from tests.integration.conftest import CHECKOUT, EXACT, command, run_to_its_end

#: Suites whose verdicts do not depend on how busy the machine is. Memory has sessions of its own,
#: because its profiler takes longer than all other suites together.
JUDGED = (*(suite for suite in EXACT if "memory" not in suite), "suites/test_randomness.py")

PLANTS = Path(__file__).with_name("plants.py")
DECOMPOSED = "aot_eager_decomp_partition"


@dataclass
class Planted:
    """A finished session.

    Attributes:
        run: Its run file.
        marks: The folder in which each fault that took effect leaves a mark.
        output: The text that it printed.
    """

    run: files.Run
    marks: Path
    output: str


def finished(folder: Path) -> Planted:
    """Read the finished session in a folder."""
    output = (folder / "output").read_text()
    found = [*(folder / "runs").glob("*.jsonl")]
    assert len(found) == 1, f"the session left no run:\n{output}"
    return Planted(files.read(found[0]), folder / "planted", output)


def observe(
    folder: Path,
    cases: Iterable[str],
    *arguments: str,
    backend: str = DECOMPOSED,
    suites: tuple[str, ...] = JUDGED,
    zoo: Path = PLANTS,
    timeout_s: float = 3000.0,
) -> Planted:
    """Run one session over some cases of the zoo of faults.

    Args:
        folder: An empty folder for the run, the marks and the output.
        cases: The ids of the cases.
        arguments: Further words of the command line.
        backend: The backend whose graphs the faults change.
        suites: The suites to run.
        zoo: The zoo file.
        timeout_s: Seconds after which the session is killed.
    """
    marks = folder / "planted"
    marks.mkdir(parents=True)
    chosen = [word for case in dict.fromkeys(cases) for word in ("--cases", case)]
    words = command(
        *suites, "--zoo", str(zoo), *chosen, *arguments, runs=folder / "runs", backend=backend
    )
    # The zoo imports tests.
    folders = ":".join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    env = {"COMPILEGATE_PLANTED": str(marks), "PYTHONPATH": folders}
    session = run_to_its_end(words, env, folder / "runs", timeout_s)
    (folder / "output").write_text(session.output)
    return finished(folder)


def tiny_cases(faults: Iterable[Fault]) -> list[str]:
    """Return the cases of faults in their tiny victims, each followed by its sound twin."""
    return [case for f in faults for case in (f.case(f.victim), f.twin(f.victim))]


def zoo_cases(faults: Iterable[Fault]) -> list[str]:
    """Return the cases of faults in models of the shipped zoo, each followed by its sound twin."""
    return [case for f in faults for v in f.zoo for case in (f.case(v), f.twin(v))]
