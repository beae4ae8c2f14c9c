"""Runs the healthy compiler, with which mutants are compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.mutants import choosing
from tests.mutants.trial import Trial

#: The executed lines of a case, by module.
Lines = dict[str, list[int]]


def baseline(trial: Trial, cases: Iterable[str], jobs: int) -> dict[str, Lines]:
    """Run the healthy compiler. Return the executed lines of each usable case.

    A case is left out if two processes compile it differently, or if compilegate fails it.
    """
    with ThreadPoolExecutor(jobs) as pool:
        found = [*pool.map(lambda case: _healthy(trial, case), cases)]
    for result in found:
        if result["trouble"]:
            print(f"left out: {result['case']}: {json.dumps(result['trouble'])}", flush=True)
    return {result["case"]: result["lines"] for result in found if not result["trouble"]}


def _healthy(trial: Trial, case: str) -> dict[str, Any]:
    """Compile a case in two processes and a session; say what is wrong with it."""
    path: Path = trial.home / "healthy" / f"{case}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    first, fault = trial.plain(f"{case}-1", [case], None, stores=True)
    noted, other_fault = trial.plain(f"{case}-2", [case], dict.fromkeys(choosing.modules()))
    session = trial.session(case, [case], None)
    trouble: list[Any] = [text for text in (fault, other_fault) if text]
    for line in (*first, *noted):
        if "crashed" in line or line.get("differs"):
            trouble.append({key: value for key, value in line.items() if key != "lines"})
    if session["status"]:
        trouble.append(session)
    lines = noted[0].get("lines", {}) if noted else {}
    seconds = [line["seconds"] for line in (*first, *noted)] + [session["seconds"]]
    result = {"case": case, "trouble": trouble, "seconds": seconds, "lines": lines}
    path.write_text(json.dumps(result))
    print(f"healthy: {case}: {seconds} s", flush=True)
    return result
