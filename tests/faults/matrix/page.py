"""``python -m tests.faults.matrix.page FILE.json …`` writes ``docs/measurements/matrix.md``.

It adds what the page needs of the files to ``matrix.json`` next to it. A cell counts as it was
filled last, unless that left it undecided. Without a file it writes the page of what is kept.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tests.faults.matrix import kept
from tests.faults.matrix.cells import FAMILIES, FAMILY_OF
from tests.faults.matrix.kept import Entry
from tests.faults.matrix.kinds import KINDS
from tests.faults.matrix.notes import NOTES

PAGE = kept.FILE.with_suffix(".md")

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
`python -m tests.faults.matrix.page FILE.json` writes this page. A later run fills cells that the
page lacks, unless `--again` asks for the others, too.

Most of what is undecided ran out of memory: two runs on an H100 observed twelve and six cases at
once (`-n 12`, `-n 6`), and one on an H200 shared its GPU with a session. Three at once are the
default. A run on another H200 filled 58 cells again (`--again`), and 56 had the same verdict. In
the other two, memory ran out in one of the runs.
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


def page() -> str:
    """Return the page of what is kept."""
    runs, entries = kept.runs(), kept.entries()
    missed = [entry for entry in entries if entry.verdict == "missed"]
    undecided = [entry for entry in entries if entry.verdict == "undecided"]
    columns = dict.fromkeys(
        value
        for values in zip(*(entry.columns for entry in entries), strict=True)
        for value in sorted(set(values))
        if value not in ("whole", "default")
    )
    return TEXT.format(
        runs=_machines(runs, entries),
        by_setting=_table(entries, [*columns], lambda entry: entry.columns),
        by_family=_table(entries, [*FAMILIES], lambda entry: (FAMILY_OF[entry.case.model],)),
        missed=_lines(missed, lambda entry: _note(entry) or f"not explained: {entry.why}"),
        undecided=_lines(undecided, lambda entry: entry.why),
        twins=_twins(runs),
    )


def _machines(runs: Sequence[dict[str, dict[str, str]]], entries: Sequence[Entry]) -> str:
    """Return a row for each machine, with the cells of all its runs."""
    lines = [
        "| torch | machine | backend | runs | cases | kinds | caught | not applicable | … below "
        "eager's rounding | undecided |",
        "|---" * 10 + "|",
    ]
    machines: dict[tuple[str, str, str], list[int]] = {}
    for number, run in enumerate(runs):
        about = run["about"]
        key = about["torch"], about["name"], about["backend"]
        machines.setdefault(key, []).append(number)
    for (torch, name, backend), numbers in machines.items():
        own = [entry for entry in entries if entry.run in numbers]
        counts = Counter(entry.verdict for entry in own)
        small = sum(entry.why == "small" for entry in own)
        kinds, cases = ({getattr(entry, what) for entry in own} for what in ("kind", "case"))
        cells = (
            *(
                torch,
                name,
                f"`{backend}`",
                len(numbers),
                len(cases),
                f"{len(kinds)} of {len(KINDS)}",
            ),
            *(f"**{_share(own)}**", counts["not applicable"], small, counts["undecided"]),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _note(entry: Entry) -> str:
    """Return why a fault is missed, as far as that is known."""
    name = f"{entry.kind} {entry.case.id}"
    return next((text for glob, text in NOTES.items() if fnmatchcase(name, glob)), "")


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


def _twins(runs: Sequence[dict[str, dict[str, object]]]) -> str:
    made, unseen = (sum(int(str(run["about"][of])) for run in runs) for of in ("twins", "unseen"))
    failing = [
        f"- `{twin}`: {', '.join(aspects)}\n"
        for run in runs
        if isinstance(of := run["about"]["failing"], dict)
        for twin, aspects in of.items()
    ]
    passed = f"{made - unseen - len(failing)} of {made} twins pass everything"
    return f"{passed}; {unseen} were not observed to their end.\n" + "".join(failing)


if __name__ == "__main__":
    if files := [Path(name) for name in sys.argv[1:]]:
        kept.keep(files)
    PAGE.write_text(page())
