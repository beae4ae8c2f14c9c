"""What ``docs/measurements/matrix.json`` keeps of the cells that were filled, for the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.judging.aspects import ASPECTS
from compilegate.records.case import Case
from tests.faults.matrix.store import Store
from tests.faults.matrix.verdicts import Filled

FILE = Path(__file__).resolve().parents[3] / "docs" / "measurements" / "matrix.json"
#: How the file and the tables write the verdicts other than *caught*.
_SIGNS = {"missed": "missed", "undecided": "undecided", "not applicable": "n/a"}
#: What the file says of a reason, at most.
_LONGEST = 220


@dataclass(frozen=True)
class Entry:
    """A cell as the page shows it.

    Attributes:
        run: The number of its run.
        kind: The name of the kind of fault.
        case: The case.
        verdict: The verdict.
        aspects: What caught it.
        why: The reason of another verdict.
    """

    run: int
    kind: str
    case: Case
    verdict: str
    aspects: str = ""
    why: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the settings that it counts in."""
        of = self.case
        return (of.phase, of.precision, of.dynamic, of.scope, of.mode)


def runs() -> list[dict[str, Any]]:
    """Return the runs of the matrix: what each was made with, and its cells by case and kind."""
    found: list[dict[str, Any]] = json.loads(FILE.read_text())
    return found


def entries() -> list[Entry]:
    """Return all cells that are kept."""
    return [
        entry
        for number, run in enumerate(runs())
        for case, cells in run["cases"].items()
        for entry in _entries(number, Case.parse(case), cells)
    ]


def decided(backend: str) -> set[tuple[str, str]]:
    """Return kind and case of the cells that have a verdict on a backend.

    Args:
        backend: The backend. The case names the device.
    """
    of_backend = {n for n, run in enumerate(runs()) if run["about"]["backend"] == backend}
    return {
        (entry.kind, entry.case.id)
        for entry in entries()
        if entry.run in of_backend and entry.verdict != "undecided"
    }


def keep(files: Sequence[Path]) -> None:
    """Keep what the page needs of the files of a matrix.

    A cell counts as it was filled last, unless that left it undecided.
    """
    kept = runs()
    for file in files:
        store = Store.read(file)
        cases: dict[str, dict[str, str]] = {}
        known = decided(store.about["backend"])
        for cell in sorted(store.cells, key=lambda cell: (cell.case, cell.kind)):
            if cell.verdict != "undecided" or (cell.kind, cell.case) not in known:
                cases.setdefault(cell.case, {})[cell.kind] = _shortened(cell)
        failing = {twin.case: twin.failed for twin in store.twins.values() if twin.failed}
        unseen = sum(bool(twin.trouble) for twin in store.twins.values())
        about = {**store.about, "twins": len(store.twins), "unseen": unseen, "failing": failing}
        for earlier in kept:
            _leave_out(earlier["cases"], cases)
        kept = [run for run in kept if run["cases"]]
        kept.append({"about": about, "cases": cases})
    texts = []
    for run in kept:
        lines = ",\n".join(
            f" {json.dumps(case)}: {_dumps(of)}" for case, of in run["cases"].items()
        )
        texts.append(f'{{"about": {json.dumps(run["about"])},\n"cases": {{\n{lines}}}}}')
    FILE.write_text("[\n" + ",\n".join(texts) + "]\n")


def _leave_out(earlier: dict[str, dict[str, str]], later: dict[str, dict[str, str]]) -> None:
    """Leave out of earlier cells those that were filled again."""
    for case, cells in later.items():
        for kind in cells:
            earlier.get(case, {}).pop(kind, None)
    for case in [case for case, cells in earlier.items() if not cells]:
        del earlier[case]


def _dumps(cells: dict[str, str]) -> str:
    return json.dumps(cells, ensure_ascii=False, separators=(",", ":"))


def _shortened(cell: Filled) -> str:
    """Return the letters of the aspects that caught a fault, or the verdict with its reason."""
    if cell.verdict == "caught":
        return "".join(ASPECTS[a].letter for a in cell.aspects)
    sign = _SIGNS[cell.verdict]
    if cell.verdict == "not applicable":
        return "n/a small" if cell.why.startswith("below") else sign
    return f"{sign} {' '.join(cell.why.split())[:_LONGEST]}"


def _entries(run: int, case: Case, cells: dict[str, str]) -> Iterator[Entry]:
    for kind, text in cells.items():
        sign, _, why = text.partition(" ")
        if sign in _SIGNS.values():
            verdict = next(word for word, of in _SIGNS.items() if of == sign)
            yield Entry(run, kind, case, verdict, why=why)
        else:
            yield Entry(run, kind, case, "caught", aspects=text)
