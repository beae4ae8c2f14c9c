"""Observe many cases in one session, and check that it grows by nothing but its results.

One session observes all models, ten observe a tenth each. Every two seconds, the memory, the open
files and the processes of the session are counted, and its temporary files. The long session must
need no more in its last tenth than in its second one, and give the verdicts of the short ones::

    python -m tests.soak_growth --models 100
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compilegate.runs import files
from tests.soak import (
    ROOT,
    SERVER,
    SUITES,
    command_line,
    command_of,
    environment_of,
    parent_of,
    processes,
)

#: Sessions that together observe what the long one does, and the cases of a model.
PARTS, CASES = 10, 10
#: Seconds from one look at a session to the next.
_EVERY_S = 2.0
_MIB = 2.0**20
#: Memory that a process may need more from the second tenth to the last one, in KiB a case. pytest
#: keeps what it has observed, compressed, and reported. The others keep nothing.
_MOST_KIB = {"pytest": 48.0, "supervisor": 0.5, "fork server": 5.0}


@dataclass(frozen=True)
class Look:
    """What a session used at a moment.

    Attributes:
        done: How many cases it had observed.
        figures: Figures by name: MiB of memory, open files, processes, temporary files.
    """

    done: int
    figures: Mapping[str, float]


@dataclass
class Session:
    """One session.

    Attributes:
        verdicts: The outcome of each case and aspect.
        looks: What it used, in order.
        seconds: How long it took.
        status: Its exit status.
        left: Processes and temporary files that it left.
    """

    verdicts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    seconds: float = 0.0
    status: int = 0
    left: Sequence[str] = ()

    def figure(self, name: str, start: float, end: float) -> float:
        """Return the median of a figure while a part of the cases was observed.

        Args:
            name: The figure.
            start: The first case of the part, as a share of all.
            end: The last one, likewise.
        """
        cases = len({case for case, _ in self.verdicts})
        found = [look.figures[name] for look in self.looks if start <= look.done / cases < end]
        return statistics.median(found) if found else float("nan")


def observe(folder: Path, name: str, *, first: int, count: int) -> Session:
    """Run a session to its end, and look at it every few seconds.

    Args:
        folder: The folder for runs and temporary files.
        name: The name of the run.
        first: The number of the first model that it observes.
        count: How many models it observes.
    """
    made, token = Session(), f"{os.getpid()}.{name}"
    runs, temporary = folder / "runs", folder / "tmp"
    command = [*command_of(runs, "eager"), "--save", name]
    started = time.monotonic()
    with (folder / f"{name}.log").open("wb") as log, (folder / f"{name}.looks").open("w") as seen:
        session = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment_of(folder, token, count, first=first, cases=CASES),
            stdout=log,
            stderr=log,
        )
        done = _done(runs / f"{name}.jsonl")
        while session.poll() is None:
            time.sleep(_EVERY_S)
            if (look := _look(session.pid, token, temporary, done())) is not None:
                made.looks.append(look)
                print(json.dumps({"done": look.done, **look.figures}), file=seen, flush=True)
    made.status, made.seconds = session.returncode, time.monotonic() - started
    time.sleep(_EVERY_S)  # what the session ended may take a moment to go
    run = files.read(runs / f"{name}.jsonl")
    made.verdicts = {key: verdict.outcome for key, verdict in run.verdicts.items()}
    made.left = [*map(command_line, processes(token)), *map(str, temporary.rglob("*"))]
    return made


def _done(path: Path) -> Callable[[], int]:
    """Return a function that counts the observations of a run file, which grows."""
    read = count = 0

    def done() -> int:
        nonlocal read, count
        if path.exists():
            with path.open("rb") as file:
                file.seek(read)
                text = file.read()
            read, count = read + len(text), count + text.count(b'"record":"observation"')
        return count

    return done


def _look(pid: int, token: str, temporary: Path, done: int) -> Look | None:
    """Look at a session; None if one of its lasting processes does not exist."""
    found = processes(token)
    servers = [one for one in found if SERVER in command_line(one)]
    parents = {one: parent_of(one) for one in servers}
    supervisors = [one for one in servers if parents[one] not in servers]
    lasting = {"pytest": pid}
    for name, above in (("supervisor", [pid]), ("fork server", supervisors)):
        matching = [one for one in servers if parents[one] in above]
        if not matching:
            return None
        lasting[name] = matching[0]
    figures: dict[str, float] = {"processes": len(found)}
    try:
        for name, one in lasting.items():
            figures[_memory(name)] = _memory_mib(one)
            figures[f"{name}: open files"] = len(os.listdir(f"/proc/{one}/fd"))
    except OSError:  # it has ended since
        return None
    figures["temporary files"] = sum(1 for _ in temporary.rglob("*"))
    return Look(done, figures)


def _memory(name: str) -> str:
    return f"{name}: MiB of memory"


def _memory_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB


def complaints(long: Session, short: Sequence[Session]) -> Iterator[str]:
    """Yield how the long session grew, or differs from the short ones, a line each."""
    for session in (long, *short):
        if session.status:
            yield f"a session ended with status {session.status}"
        yield from (f"left: {one}" for one in session.left)
    for name in long.looks[-1].figures:
        early, late = long.figure(name, 0.1, 0.2), long.figure(name, 0.9, 1.0)
        allowed = 0.0
        for process, kib in _MOST_KIB.items():
            if name == _memory(process):
                allowed = kib * len(long.verdicts) / len(SUITES) * 0.8 / 1024
        if not late <= early + allowed:
            yield f"{name}: {early:.1f} in the second tenth, {late:.1f} in the last one"
    together = {key: outcome for session in short for key, outcome in session.verdicts.items()}
    for key in sorted(long.verdicts.keys() | together.keys()):
        if long.verdicts.get(key) != together.get(key):
            yield f"{key}: {long.verdicts.get(key)} in the long session, else {together.get(key)}"


def table(long: Session, short: Sequence[Session]) -> Iterator[str]:
    """Yield the rows of a table in Markdown: what the sessions used."""
    yield "| | last fifth of a short session | 2nd tenth of the long one | last tenth |"
    yield "|---|---|---|---|"
    for name in long.looks[-1].figures:
        theirs = statistics.median(session.figure(name, 0.8, 1.0) for session in short)
        figures = (theirs, long.figure(name, 0.1, 0.2), long.figure(name, 0.9, 1.0))
        yield f"| {name} | {' | '.join(f'{figure:.1f}' for figure in figures)} |"
    theirs_s = sum(one.seconds for one in short)
    yield f"| seconds | {theirs_s:.0f} in all | | {long.seconds:.0f} in all |"


def main() -> int:
    """Run all sessions, print the table, and return 1 if the long one grew or differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=100, help="of ten cases each (default: 100)")
    parser.add_argument("--folder", type=Path, help="keep the runs and the logs here")
    options = parser.parse_args()
    if options.models % PARTS or options.models > 10**4:
        parser.error(f"--models must be a multiple of {PARTS}, and at most 10000")
    folder = options.folder or Path(tempfile.mkdtemp(prefix="soak"))
    folder.mkdir(parents=True, exist_ok=True)

    def session(name: str, first: int, count: int) -> Session:
        return observe(folder, name, first=first, count=count)

    long = session("long", 0, options.models)
    part = options.models // PARTS
    short = [session(f"part{index}", index * part, part) for index in range(PARTS)]
    print(*table(long, short), f"in {folder}", sep="\n")
    found = [*complaints(long, short)]
    print(*found[:40], f"{len(found)} complaints", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
