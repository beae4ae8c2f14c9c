"""Observe many cases while processes are killed at random, and check that nothing is lost.

A session observes small models. Every few seconds one of its processes is killed: the child that
observes, its fork server, or the session itself, which is then resumed. At the end each planned
case must have exactly one verdict of each suite, and no process or file may be left::

    python -m tests.soak --models 500 --seconds 4 --seed 0
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from compilegate.records.verdict import Verdict
from compilegate.runs import files
from compilegate.runs.archive import Archive
from compilegate.runs.reader import decode

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("suites/test_forward.py", "suites/test_graph_breaks.py")
#: The variable that every process of the soak inherits, however it detaches itself.
TOKEN = "COMPILEGATE_SOAK"
#: How a process of a session that starts Python through the bootstrap is recognised.
SERVER = "--serve"
#: What is killed, and how often relative to the others.
KINDS = {"child": 6, "fork server": 2, "session": 1}


@dataclass
class Report:
    """What a soak showed.

    Attributes:
        kills: Processes that were killed, by kind.
        sessions: Sessions that were started, the resumed ones included.
        verdicts: How often each case and aspect has a verdict in the run file.
        planned: The cases that were planned.
        outcomes: How many verdicts have each outcome.
        processes: Processes that were left, with their command lines.
        files: Files that were left in the folder of temporary files.
        seconds: How long it took.
    """

    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    sessions: int = 0
    verdicts: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    planned: Sequence[str] = ()
    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    processes: Sequence[str] = ()
    files: Sequence[str] = ()
    seconds: float = 0.0

    @property
    def complaints(self) -> Iterator[str]:
        """Yield what was lost, doubled or left, a line each."""
        aspects = {aspect for _, aspect in self.verdicts}
        wanted = {(case, aspect) for case in self.planned for aspect in aspects}
        for case, aspect in sorted(wanted - self.verdicts.keys()):
            yield f"{case} has no verdict on {aspect}"
        for (case, aspect), times in sorted(self.verdicts.items()):
            if times > 1:
                yield f"{case} has {times} verdicts on {aspect}"
        yield from (f"left a process: {process}" for process in self.processes)
        yield from (f"left a file: {file}" for file in self.files)

    def __str__(self) -> str:
        kills = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kills.items()))
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        return (
            f"{len(self.planned)} cases, {self.sessions} sessions, killed: {kills or 'none'}; "
            f"verdicts: {outcomes}; {self.seconds:.0f} s"
        )


def soak(
    folder: Path, *, models: int, seconds: float, seed: int, most_kills: int = 10**6
) -> Report:
    """Run a session to its end, however often its processes are killed.

    Args:
        folder: An empty folder for the run, the caches and temporary files.
        models: How many models there are, of one case each.
        seconds: The mean time between two kills.
        seed: Seeds what is killed and when.
        most_kills: After this many kills, the session is left alone.
    """
    report, draws = Report(), random.Random(seed)
    temporary, runs = folder / "tmp", folder / "runs"
    token = f"{os.getpid()}.{seed}"
    environment = environment_of(folder, token, models)
    command = command_of(runs, "aot_eager")
    how = ["--save", "soak"]
    started = time.monotonic()
    while True:
        report.sessions += 1
        with (folder / f"session-{report.sessions}.log").open("wb") as log:
            session = subprocess.Popen(
                [*command, *how], cwd=ROOT, env=environment, stdout=log, stderr=log
            )
            while session.poll() is None:
                time.sleep(draws.expovariate(1 / seconds) if seconds else 0.1)
                if report.kills.total() < most_kills:
                    _kill_one(session, token, draws, report)
        # A fork server that is killed before it is ready keeps a session from starting.
        if session.returncode not in (-signal.SIGKILL, pytest.ExitCode.USAGE_ERROR):
            break
        how = _how_to_go_on(runs / "soak.jsonl")
    report.seconds = time.monotonic() - started
    time.sleep(2.0)  # what the session ended may take a moment to go
    run = files.read(runs / "soak.jsonl")
    report.planned = run.header.planned
    report.outcomes.update(verdict.outcome for verdict in run.verdicts.values())
    with Archive(run.path) as archive:  # every line, not the last of each kind
        lines = (decode(line) for case in archive.cases for line in archive.raw(case))
        found = (record for record in lines if isinstance(record, Verdict))
        report.verdicts.update((verdict.case, verdict.aspect) for verdict in found)
    report.processes = [*map(command_line, processes(token))]
    report.files = sorted(str(path.relative_to(temporary)) for path in temporary.rglob("*"))
    return report


def environment_of(
    folder: Path, token: str, models: int, *, first: int = 0, cases: int = 1
) -> dict[str, str]:
    """Return the variables of a session, and make its folder of temporary files.

    Args:
        folder: The folder of the soak.
        token: Names the processes of the soak.
        models: How many models there are.
        first: The number of the first one.
        cases: How many cases each has.
    """
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return {
        **os.environ,
        TOKEN: token,
        "SOAK_FIRST": str(first),
        "SOAK_CASES": str(cases),
        "SOAK_MODELS": str(models),
        "TMPDIR": str(temporary),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
        "COLUMNS": "80",
    }


def command_of(runs: Path, backend: str) -> list[str]:
    """Return the command of a session, without the name of its run.

    Args:
        runs: The folder of run files.
        backend: The compiler backend.
    """
    command = [sys.executable, "-m", "pytest", *SUITES, "-q", "-m", "cpu", "-p", "no:cacheprovider"]
    command += ["-o", f"runs_dir={runs}", "--zoo", str(ROOT / "tests/zoos/soak.py")]
    return [*command, "--models", "soak*", "--tier", "full", "--backend", backend]


def _how_to_go_on(path: Path) -> list[str]:
    """Return the option of the session that follows a killed one."""
    if path.exists() and path.stat().st_size == 0:  # killed before its first record
        path.unlink()
    return ["--resume", path.stem] if path.exists() else ["--save", path.stem]


def _kill_one(
    session: subprocess.Popen[bytes], token: str, draws: random.Random, report: Report
) -> None:
    """Kill a process of the session that the draw chooses, if there is one of that kind."""
    (kind,) = draws.choices([*KINDS], [*KINDS.values()])
    servers = [pid for pid in processes(token) if SERVER in command_line(pid)]
    parents = {pid: parent_of(pid) for pid in servers}
    if kind == "session":
        victims = [session.pid]
    elif kind == "fork server":
        victims = [pid for pid in servers if parents[pid] not in servers]
    else:
        victims = [pid for pid in servers if parents[pid] in servers]
    if victims and session.poll() is None:
        try:
            os.kill(draws.choice(victims), signal.SIGKILL)
        except ProcessLookupError:
            return
        report.kills[kind] += 1


def processes(token: str) -> list[int]:
    """The living processes that inherited the token, however they are related."""
    wanted = f"{TOKEN}={token}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = wanted in (folder / "environ").read_bytes().split(b"\0")
            is_dead = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if is_ours and not is_dead:
            found.append(int(folder.name))
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def main() -> int:
    """Run a soak, print the report, and return 1 if anything was lost, doubled or left."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=500, help="cases (default: 500)")
    parser.add_argument("--seconds", type=float, default=4.0, help="mean time between two kills")
    parser.add_argument("--seed", type=int, default=0, help="seeds what is killed and when")
    parser.add_argument("--folder", type=Path, help="keep the run and the logs here")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="soak"))
    folder.mkdir(parents=True, exist_ok=True)
    report = soak(folder, models=options.models, seconds=options.seconds, seed=options.seed)
    print(report, f"in {folder}", sep="\n")
    complaints = [*report.complaints]
    print(*complaints[:40], f"{len(complaints)} complaints", sep="\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
