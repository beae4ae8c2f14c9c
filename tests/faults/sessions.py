"""Sessions of the suites over planted faults and their sound twins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from compilegate.runs import files
from tests.faults.catalogue import Fault
from tests.integration.conftest import EXACT, command, run_to_its_end

#: Verdicts that do not depend on how busy a machine is; memory is planted apart, its profiler takes
#: longer than all the rest.
JUDGED = (*(suite for suite in EXACT if "memory" not in suite), "suites/test_randomness.py")

PLANTS = Path(__file__).with_name("plants.py")
DECOMPOSED = "aot_eager_decomp_partition"


@dataclass
class Planted:
    """A finished session.

    Attributes:
        run: Its run file.
        marks: The folder of marks left by faults that took hold.
        output: What it printed.
    """

    run: files.Run
    marks: Path
    output: str


def finished(folder: Path) -> Planted:
    """What a session left in a folder."""
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
    """One session over some cases of the zoo of faults.

    Args:
        folder: An empty folder for what it leaves.
        cases: Ids.
        arguments: Further words of the command line.
        backend: The backend whose graphs are spoilt.
        suites: The aspects.
        zoo: The zoo file.
        timeout_s: Seconds after which it is killed.
    """
    marks = folder / "planted"
    marks.mkdir(parents=True)
    chosen = [word for case in dict.fromkeys(cases) for word in ("--cases", case)]
    words = command(
        *suites, "--zoo", str(zoo), *chosen, *arguments, runs=folder / "runs", backend=backend
    )
    env = {"COMPILEGATE_PLANTED": str(marks)}
    session = run_to_its_end(words, env, folder / "runs", timeout_s)
    (folder / "output").write_text(session.output)
    return finished(folder)


def tiny_cases(faults: Iterable[Fault]) -> list[str]:
    """The cases of faults in their tiny victims, and of these without."""
    return [case for f in faults for case in (f.case(f.victim), f.twin(f.victim))]


def zoo_cases(faults: Iterable[Fault]) -> list[str]:
    """The cases of faults in models of the shipped zoo, and of these without."""
    return [case for f in faults for v in f.zoo for case in (f.case(v), f.twin(v))]
