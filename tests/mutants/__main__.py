"""Measure how many mutants of PyTorch's compiler compilegate detects: ``python -m tests.mutants``.

It writes ``mutants.jsonl`` in its folder, a line for each mutant, and goes on with what is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Any

from tests.mutants import choosing
from tests.mutants.baseline import baseline
from tests.mutants.processes import OVER, OverError, kill_all
from tests.mutants.trial import ROUNDING, Mutant, Trial

#: Classes of mutants that nobody needs to read.
_UNDERSTOOD = ("detected", "crashed", "equivalent", "survived: same numbers")
#: Seconds after the deadline in which mutants that run may end.
GRACE_S = 60.0


def examine_all(
    trial: Trial, mutants: Iterator[Mutant], jobs: int, deadline: float
) -> Iterator[dict[str, Any]]:
    """Yield a record of each mutant. Start none after the deadline, and kill those that run on."""

    def examine(mutant: Mutant) -> dict[str, Any]:
        began = time.monotonic()
        result = trial.examine(mutant)
        for part in ("plain", "session"):
            name = f"{mutant.name.replace(':', '-')}-{part}"
            shutil.rmtree(trial.home / "jobs" / name, ignore_errors=True)
        return {**asdict(mutant), **result, "seconds": round(time.monotonic() - began)}

    running: set[Future[dict[str, Any]]] = set()
    with ThreadPoolExecutor(jobs) as pool:
        while True:
            if time.monotonic() < deadline:
                running |= {pool.submit(examine, m) for m in islice(mutants, jobs - len(running))}
            if not running:
                return
            left = max(deadline + GRACE_S - time.monotonic(), 0.0)
            done, running = wait(running, left, return_when=FIRST_COMPLETED)
            for future in done:
                with contextlib.suppress(OverError):
                    yield future.result()
            if running and not done:
                OVER.set()
                kill_all(trial.home)


def table(records: Iterable[dict[str, Any]], by: Callable[[dict[str, Any]], str]) -> Iterator[str]:
    """Yield the lines of a table of classes, by a property of a mutant."""
    counts: dict[str, Counter[str]] = {}
    for record in records:
        for row in (by(record), "all"):
            counts.setdefault(row, Counter())[record["class"]] += 1
    columns = sorted(counts.get("all", ()))
    yield f"| | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in sorted(counts, key=lambda name: (name == "all", name)):
        yield f"| {row} | {' | '.join(str(counts[row][column]) for column in columns)} |"


def _is_other(record: dict[str, Any]) -> bool:
    """Whether the code of a mutant behaves otherwise than the healthy code."""
    parts = {"numbers", "layouts", "graphs"}
    return any(parts & {*line.get("differs", ())} for line in record["plain"])


def summary(records: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the summary."""
    yield from table(records, lambda record: record["kind"])
    yield ""
    yield from table(records, lambda record: record["module"].rpartition(".")[0])
    yield ""
    failed = [r["session"]["failed"][0] for r in records if r["class"] == "detected"]
    yield f"first failed aspect of detected: {dict(Counter(aspect for _, aspect, _ in failed))}"
    alike = [r for r in records if r["class"] == "detected" and not _is_other(r)]
    for record in alike:
        yield f"detected, but the same without compilegate: {record['module']}:{record['number']}"
    wrong = [
        record
        for record in records
        if any(line.get("over_eager", 0.0) > ROUNDING for line in record["plain"])
    ]
    classes = Counter(record["class"] for record in wrong)
    yield f"mutants with wrong numbers: {dict(classes)}"
    for record in records:
        if record["class"] in _UNDERSTOOD:
            continue
        what = f"{record['module']}:{record['line']}: {record['before']} => {record['after']}"
        yield f"\n{record['class']}: {what}"
        for line in record["plain"]:
            if line.get("differs"):
                yield "  " + json.dumps({k: line[k] for k in line if k not in ("guards", "code")})


def main() -> int:
    """Run the trial; print tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--home", type=Path, default=Path("mutants"), help="a folder for all files")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--mutants", type=int, default=10**6, help="examine at most this many")
    parser.add_argument("--minutes", type=float, default=20.0, help="start none after this time")
    parser.add_argument("--seed", type=int, default=0, help="seeds the choice")
    parser.add_argument("--cases", default="*", metavar="GLOB", help="of the zoo's cases")
    parser.add_argument("--modules", default="*", metavar="GLOB", help="of PyTorch's modules")
    parser.add_argument("--kinds", default="*", metavar="GLOB", help="of changes, such as text")
    parser.add_argument("--most-cases", type=int, default=3, help="cases in which one is compiled")
    parser.add_argument("--timeout", type=float, default=90.0, help="seconds for a case")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    home = options.home.resolve()
    trial = Trial(home, options.device, options.most_cases, options.timeout)
    home.mkdir(parents=True, exist_ok=True)
    cases = [case for case in trial.cases if fnmatch(case, options.cases)]
    lines = baseline(trial, cases, options.jobs)
    path = home / "mutants.jsonl"
    records = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    known = {(record["module"], record["number"]) for record in records}
    ordered = choosing.order(lines, options.seed)
    wanted = (mutant for mutant in ordered if fnmatch(mutant.module, options.modules))
    wanted = (mutant for mutant in wanted if fnmatch(mutant.kind, options.kinds))
    chosen = islice(wanted, options.mutants)
    missing = (mutant for mutant in chosen if (mutant.module, mutant.number) not in known)
    with path.open("a") as target:
        for record in examine_all(trial, missing, options.jobs, deadline):
            records.append(record)
            print(json.dumps(record), file=target, flush=True)
            what = f"{record['module']}:{record['line']}: {record['before']} => {record['after']}"
            print(f"{record['seconds']} s {record['class']}: {what}", flush=True)
    print(*summary(records), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
