"""``python -m tests.faults.matrix.page FILE.json …`` writes ``docs/measurements/matrix.md``.

It adds what the page needs of the files to ``matrix.json`` next to it. A cell counts as it was
filled last. Without a file it writes the page of what is kept.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from compilegate.judging.aspects import ASPECTS
from compilegate.records.case import Case
from tests.faults.matrix.cells import FAMILIES, FAMILY_OF
from tests.faults.matrix.kinds import KINDS
from tests.faults.matrix.notes import NOTES
from tests.faults.matrix.store import Store
from tests.faults.matrix.verdicts import Filled

PAGE = Path(__file__).resolve().parents[3] / "docs" / "measurements" / "matrix.md"
KEPT = PAGE.with_suffix(".json")
#: How the kept file and the tables write the verdicts other than *caught*.
_SIGNS = {"missed": "missed", "undecided": "undecided", "not applicable": "n/a"}
#: What the kept file says of a reason, at most.
_LONGEST = 220

TEXT = """\
# Measured: kinds of faults × settings × families of models

<!-- Written by `python -m tests.faults.matrix.page`: run the matrix, then it again. -->

`python -m tests.faults.matrix --out FILE.json` plants a kind of fault in the compiled code of a
model of the zoo, observes the case as a session does, and judges it by the suites' own rules. A
cell is **caught** if an aspect fails that passes in the twin without the fault. It is **not
applicable** if the plant found nothing to change, if no result of compiled code differs from the
twin's, or if the largest difference is below eager's own rounding. It is **undecided** if the case
did not run to its end, if the verdict is *inconclusive*, or if the twin fails, too. Probing calls
and timing are left out.
`python -m tests.faults.matrix.page FILE.json` writes this page.

The cells on an H100 come from two sessions that observed twelve and six cases at once (`-n 12`,
`-n 6`). That needs more memory at times than the GPU has: hence most of what is undecided. Three at
once are the default. Those on H200s come from nine minutes of `-n 3 --gpus 0,1,2,3`, from twelve of
`-n 5` on one GPU, and from fifteen of `-n 3` on another, for kinds that had no cell.
Each kind has few cells here, so a row says where a fault was caught, not how often it is.

{runs}
## Kind × setting

Caught of applicable cells. A cell counts in each column that its setting has.

{by_setting}
## Kind × family

{by_family}
## What was missed

{missed}
## What is undecided

{undecided}
## Twins

{twins}
"""


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

    @property
    def note(self) -> str:
        """Why the fault is missed, as far as that is known."""
        name = f"{self.kind} {self.case.id}"
        return next((text for glob, text in NOTES.items() if fnmatchcase(name, glob)), "")


def keep(files: Sequence[Path]) -> None:
    """Add what the page needs of the files of a matrix to what is kept."""
    runs: list[dict[str, Any]] = json.loads(KEPT.read_text())
    for file in files:
        store = Store.read(file)
        cases: dict[str, dict[str, str]] = {}
        for cell in sorted(store.cells, key=lambda cell: (cell.case, cell.kind)):
            cases.setdefault(cell.case, {})[cell.kind] = _shortened(cell)
        failing = {twin.case: twin.failed for twin in store.twins.values() if twin.failed}
        unseen = sum(bool(twin.trouble) for twin in store.twins.values())
        about = {**store.about, "twins": len(store.twins), "unseen": unseen, "failing": failing}
        for earlier in runs:
            _leave_out(earlier["cases"], cases)
        runs.append({"about": about, "cases": cases})
    texts = []
    for run in runs:
        lines = ",\n".join(
            f" {json.dumps(case)}: {_dumps(of)}" for case, of in run["cases"].items()
        )
        texts.append(f'{{"about": {json.dumps(run["about"])},\n"cases": {{\n{lines}}}}}')
    KEPT.write_text("[\n" + ",\n".join(texts) + "]\n")


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


def page() -> str:
    """Return the page of what is kept."""
    kept = json.loads(KEPT.read_text())
    entries = [
        entry
        for number, run in enumerate(kept)
        for case, cells in run["cases"].items()
        for entry in _entries(number, Case.parse(case), cells)
    ]
    missed = [entry for entry in entries if entry.verdict == "missed"]
    undecided = [entry for entry in entries if entry.verdict == "undecided"]
    columns = dict.fromkeys(
        value
        for values in zip(*(entry.columns for entry in entries), strict=True)
        for value in sorted(set(values))
        if value not in ("whole", "default")
    )
    return TEXT.format(
        runs="".join(_run(number, run, entries) for number, run in enumerate(kept)),
        by_setting=_table(entries, [*columns], lambda entry: entry.columns),
        by_family=_table(entries, [*FAMILIES], lambda entry: (FAMILY_OF[entry.case.model],)),
        missed=_lines(missed, lambda entry: entry.note or f"not explained: {entry.why}"),
        undecided=_lines(undecided, lambda entry: entry.why),
        twins=_twins(kept),
    )


def _entries(run: int, case: Case, cells: dict[str, str]) -> Iterator[Entry]:
    for kind, text in cells.items():
        sign, _, why = text.partition(" ")
        if sign in _SIGNS.values():
            verdict = next(word for word, of in _SIGNS.items() if of == sign)
            yield Entry(run, kind, case, verdict, why=why)
        else:
            yield Entry(run, kind, case, "caught", aspects=text)


def _run(number: int, run: dict[str, dict[str, str]], entries: Iterable[Entry]) -> str:
    about = run["about"]
    of_run = [entry for entry in entries if entry.run == number]
    counts = Counter(entry.verdict for entry in of_run)
    small = sum(entry.why == "small" for entry in of_run)
    return (
        f"- torch {about['torch']}, {about['name']}, backend `{about['backend']}` "
        f"(`--device {about['device']} --backend {about['backend']}`): "
        f"**{_share(of_run)}** applicable cells are caught, of {len({e.kind for e in of_run})} of "
        f"{len(KINDS)} kinds in {len(run['cases'])} cases. {counts['not applicable']} cells are "
        f"not applicable, {small} of them below eager's rounding; {counts['undecided']} are "
        "undecided.\n"
    )


def _share(entries: Iterable[Entry]) -> str:
    """Return how many of the applicable cells are caught; empty if there are none."""
    verdicts = Counter(entry.verdict for entry in entries)
    applicable = verdicts["caught"] + verdicts["missed"]
    return f"{verdicts['caught']} of {applicable}" if applicable else ""


def _table(
    entries: Sequence[Entry], columns: Sequence[str], of: Callable[[Entry], Sequence[str]]
) -> str:
    lines = [f"| kind | all | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    lines.append(_row("**all**", entries, columns, of))
    for name in KINDS:
        if any(entry.kind == name for entry in entries):
            own = [entry for entry in entries if entry.kind == name]
            lines.append(_row(f"`{name}`", own, columns, of))
    return "\n".join(lines) + "\n"


def _row(
    name: str,
    entries: Sequence[Entry],
    columns: Sequence[str],
    of: Callable[[Entry], Sequence[str]],
) -> str:
    shares = [_share(entry for entry in entries if column in of(entry)) for column in columns]
    cells = [_share(entries), *shares]
    return f"| {name} | {' | '.join(cell.replace(' of ', '/') for cell in cells)} |"


def _lines(entries: Sequence[Entry], reason: Callable[[Entry], str]) -> str:
    """Return a line for each reason, with the cells that have it."""
    reasons: dict[str, list[Entry]] = {}
    for entry in entries:
        reasons.setdefault(reason(entry), []).append(entry)
    if not reasons:
        return "Nothing.\n"
    lines = []
    for text, of in reasons.items():
        cells = ", ".join(f"`{entry.kind}` in `{entry.case.id}`" for entry in of)
        lines.append(f"- {cells}: {text}\n")
    return "".join(lines)


def _twins(kept: Sequence[dict[str, dict[str, object]]]) -> str:
    made, unseen = (sum(int(str(run["about"][of])) for run in kept) for of in ("twins", "unseen"))
    failing = [
        f"- `{twin}`: {', '.join(aspects)}\n"
        for run in kept
        if isinstance(of := run["about"]["failing"], dict)
        for twin, aspects in of.items()
    ]
    passed = f"{made - unseen - len(failing)} of {made} twins pass everything"
    return f"{passed}; {unseen} were not observed to their end.\n" + "".join(failing)


if __name__ == "__main__":
    if files := [Path(name) for name in sys.argv[1:]]:
        keep(files)
    PAGE.write_text(page())
