"""A comparison as text: the decision, what to look at first, one table, the rest counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compilegate.reports.rows import Row, rows_of
from compilegate.reports.summary import count
from compilegate.upgrade.comparison import CLASSES, WORSE, Comparison
from compilegate.upgrade.decision import decide

#: What is shown before it is folded into a number.
FIRST, DETAILS, ROWS, WIDTH = 5, 4, 40, 160
#: What a class means, in a few words.
MEANING = {
    "broken": "passed before, fails now",
    "regressed": "worse than before",
    "gone": "not observed any more",
    "inconclusive": "not to be told",
    "not comparable": "not the same thing",
    "fixed": "failed before, passes now",
    "improved": "better than before",
    "new": "not in the baseline",
    "unchanged": "as before",
}


def comparison_lines(
    comparison: Comparison, *, everything: bool = False, unfold: str = "--all shows them"
) -> Iterator[str]:
    """The lines of a comparison.

    Args:
        comparison: What to show.
        everything: Fold nothing away.
        unfold: What shows what is folded away.
    """
    return map(plain, _lines(comparison, everything=everything, unfold=unfold))


def plain(line: str) -> str:
    """A line that moves no cursor and ends nowhere else: what is in a run file may be anything."""
    return "".join(character if character.isprintable() else " " for character in line)


def _lines(comparison: Comparison, *, everything: bool, unfold: str) -> Iterator[str]:
    yield str(decide(comparison))
    if comparison.machines:
        yield f"times are not comparable, the machines differ: {comparison.machines}"
    for caution in comparison.cautions:
        yield f"note: {caution}"
    rows = rows_of(comparison)
    worse = [row for row in rows if row.kind in WORSE]
    if worse:
        yield from ("", "look at first:")
        for row in worse if everything else worse[:FIRST]:
            yield from _first(row)
    if rows:
        yield ""
        yield from _table(rows if everything else rows[:ROWS], whole=everything)
        if len(rows) > ROWS and not everything:
            yield f"… and {len(rows) - ROWS} more rows: {unfold}"
    if proposed := [line for row in rows for line in row.proposals]:
        text = f"{count(len(proposed), 'tighter budget')} would hold what is better"
        yield from ("", f"{text}:" if everything else f"{text}: {unfold}")
        for row in rows if everything else ():
            for line in row.proposals:
                yield f"  {row.who}: {line}"
    yield from ("", ", ".join(_counted(comparison)))
    yield from _notes(comparison, everything=everything, unfold=unfold)


def _first(row: Row) -> Iterator[str]:
    yield f"  {row.who}"
    yield f"    {row.what}"
    yield from (f"      {line}" for line in row.details[:DETAILS])
    if len(row.details) > DETAILS:
        yield f"      … and {len(row.details) - DETAILS} more lines"


def _table(rows: Sequence[Row], *, whole: bool) -> Iterator[str]:
    kinds = max(len("class"), *(len(row.kind) for row in rows))
    names = max(len("case"), *(len(row.who) for row in rows))
    yield f"{'class':<{kinds}}  {'case':<{names}}  what"
    for row in rows:
        line = f"{row.kind:<{kinds}}  {row.who:<{names}}  {row.what}"
        yield line if whole or len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def _counted(comparison: Comparison) -> Iterator[str]:
    for kind in CLASSES:
        if number := comparison.counts[kind]:
            yield f"{number} {kind}"
    yield f"{len(comparison.cases)} in all"


def _notes(comparison: Comparison, *, everything: bool, unfold: str) -> Iterator[str]:
    """What was noticed and decides nothing: times of two processes, mostly."""
    notes = [
        f"  {item.case}: {change.aspect}: {change.text}"
        for item in comparison.cases
        for change in item.changes
        if change.effect == "note" and change.aspect
    ]
    if notes and everything:
        yield from ("", "noticed, and decides nothing:", *notes)
    elif notes:
        differences = f"{len(notes)} difference{'s' * (len(notes) != 1)}"
        yield f"decides nothing: {differences}, of times mostly; {unfold}"
