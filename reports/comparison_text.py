"""A comparison as text: the decision, what to look at first, one table, counts of the rest."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compilegate.output.visible import visible
from compilegate.reports import attribution_text, case_groups, environment_text
from compilegate.reports.case_groups import CaseGroup
from compilegate.reports.text import count, cut, wrapped
from compilegate.upgrade.case_comparison import CLASSES, WORSE
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.decision import decide

#: How many groups, details of a group and rows of the table are shown before the rest is counted.
FIRST, DETAILS, ROWS = 5, 4, 40
#: Characters of a line where the output is no terminal, and the fewest of any line.
WIDTH, NARROWEST = 160, 80
#: Characters that a table's last column needs, or each row takes two lines.
LEAST_TEXT = 30
#: What a class means, in a few words.
MEANING = {
    "broken": "passed before, fails now",
    "regressed": "worse than before",
    "eager regressed": "eager itself is worse than before",
    "gone": "no longer observed",
    "inconclusive": "the measurements do not decide",
    "not comparable": "the two differ, or neither run observed it",
    "fixed": "failed before, passes now",
    "improved": "better than before",
    "accepted": "worse, and a budgets file accepts it",
    "new": "not in the baseline",
    "unchanged": "as before",
}


@dataclass(frozen=True)
class Layout:
    """How much of a comparison is shown.

    Attributes:
        everything: Whether all groups, rows and lines are shown.
        details: Whether the evidence is shown; pytest shows it for a failed test.
        unfold: How a reader sees the rest.
        width: Characters of a line; None for the width of the terminal.
    """

    everything: bool = False
    details: bool = True
    unfold: str = "--all shows them"
    width: int | None = None

    @property
    def columns(self) -> int:
        """Characters of a line."""
        width = self.width or shutil.get_terminal_size((WIDTH, 24)).columns
        return max(width, NARROWEST)


def comparison_lines(comparison: Comparison, *, everything: bool = False) -> Iterator[str]:
    """Yield the lines of a comparison: the decision, then the evidence.

    Args:
        comparison: What to show.
        everything: Whether all groups, rows and lines are shown.
    """
    decision, layout = decide(comparison), Layout(everything=everything)
    yield from wrapped(visible(str(decision)), layout.columns)
    if decision.command:
        yield visible(f"to decide, run: {decision.command}")
    yield from evidence_lines(comparison, layout)


def evidence_lines(comparison: Comparison, layout: Layout) -> Iterator[str]:
    """Yield the lines under the decision."""
    return map(visible, _lines(comparison, layout))


def _lines(comparison: Comparison, layout: Layout) -> Iterator[str]:
    everything, unfold = layout.everything, layout.unfold
    if comparison.machines:
        text = f"costs are not compared, because the machines differ: {comparison.machines}"
        yield from wrapped(text, layout.columns)
    for caution in comparison.notes:
        yield from wrapped(visible(f"note: {caution}"), layout.columns)
    groups = case_groups.of_comparison(comparison)
    worse = [group for group in groups if group.kind in WORSE]
    if worse and layout.details:
        yield from ("", "look at first:")
        for group in worse if everything else worse[:FIRST]:
            yield from _first(group, layout)
    if causes := [*attribution_text.lines(comparison)]:
        yield from ("", f"{attribution_text.title(comparison)}:")
        for line in causes:
            yield from wrapped(visible(f"  {line}"), layout.columns)
    if groups:
        yield ""
        yield from _table(groups if everything else groups[:ROWS], layout)
        if len(groups) > ROWS and not everything:
            yield f"… and {len(groups) - ROWS} more rows: {unfold}"
    if proposed := [line for group in groups for line in group.proposals]:
        text = f"{count(len(proposed), 'tighter budget')} would keep the improvement"
        yield from ("", f"{text}:" if everything else f"{text}: {unfold}")
        for group in groups if everything else ():
            for line in group.proposals:
                yield f"  {group.who}: {line}"
    if everything:
        yield from environment_text.lines(environment_text.groups(comparison), layout.columns)
    yield ""
    yield from wrapped(", ".join(_counted(comparison)), layout.columns)
    yield from _notes(comparison, layout)


def _first(group: CaseGroup, layout: Layout) -> Iterator[str]:
    yield f"  {group.who}"
    yield from wrapped(visible(f"    {group.what}"), layout.columns)
    for line in group.details[:DETAILS]:
        yield from wrapped(visible(f"      {line}"), layout.columns)
    if len(group.details) > DETAILS:
        yield f"      … and {len(group.details) - DETAILS} more lines"


def _table(groups: Sequence[CaseGroup], layout: Layout) -> Iterator[str]:
    kinds = max(len("class"), *(len(group.kind) for group in groups))
    names = max(len("case"), *(len(group.who) for group in groups))
    width = layout.columns
    if not layout.everything and kinds + names + LEAST_TEXT + 4 > width:
        yield f"{'class':<{kinds}}  case"
        for group in groups:
            head = f"{group.kind:<{kinds}}  {group.who}"
            who = [group.kind, *wrapped(f"  {group.who}", width)]
            yield from [head] if len(head) <= width else who
            yield cut(f"{'':<{kinds}}  {group.what}", width)
        return
    yield f"{'class':<{kinds}}  {'case':<{names}}  what"
    for group in groups:
        line = f"{group.kind:<{kinds}}  {group.who:<{names}}  {group.what}"
        yield line if layout.everything else cut(line, width)


def _counted(comparison: Comparison) -> Iterator[str]:
    for kind in CLASSES:
        if number := comparison.counts[kind]:
            yield f"{number} {kind}"
    yield f"{len(comparison.cases)} in all"


def _notes(comparison: Comparison, layout: Layout) -> Iterator[str]:
    """Yield the notes: differences that count for nothing, times of two processes mostly."""
    notes = [
        f"  {item.case}: {change.aspect}: {change.text}"
        for item in comparison.cases
        for change in item.changes
        if change.effect == "note" and change.aspect
    ]
    if notes and layout.everything:
        yield from ("", "notes:")
        for note in notes:
            yield from wrapped(visible(note), layout.columns)
    elif notes:
        differences = f"{len(notes)} difference{'s' * (len(notes) != 1)}"
        yield f"notes: {differences}, mostly in times; {layout.unfold}"
