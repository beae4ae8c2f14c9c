"""A run, or two compared, as Markdown for a GitHub job summary.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands#adding-a-job-summary
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compilegate.culprits.grouping import Culprit, counted
from compilegate.culprits.known import Known
from compilegate.output.addresses import linked
from compilegate.output.visible import visible
from compilegate.records.environment import Environment
from compilegate.reports import (
    attribution_text,
    case_groups,
    culprit_groups,
    environment_text,
    titles,
)
from compilegate.reports.case_groups import CaseGroup
from compilegate.reports.case_result import CaseResult, results_of
from compilegate.reports.columns import COLUMNS
from compilegate.reports.comparison_text import MEANING
from compilegate.reports.environment_text import ChangeGroup
from compilegate.reports.mode_table import DEFAULT, ModeRow, mode_rows
from compilegate.reports.text import count
from compilegate.runs.archive import Archive
from compilegate.upgrade.case_comparison import WORSE, Class
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.decision import decide

#: GitHub drops a step's summary that is larger than 1 MiB.
LIMIT = 2**20 - 2**14
#: Rows that are open; the rest is folded.
OPEN = 20
#: Classes whose cases are only named.
FOLDED: tuple[Class, ...] = ("new", "unchanged")

_SPECIAL = re.compile(r"[\\`*{}\[\]<>#|~&$!@]|(?<!\w)_|_(?!\w)|(?<=http):|(?<=https):|(?<=www)\.")


def escape(text: str) -> str:
    """Return text that Markdown, HTML and a table's cell show unchanged, in one line."""
    return _escaped(_one_line(text))


def with_links(text: str) -> str:
    """Return text as :func:`escape` does, whose addresses of http and https are links."""
    return linked(_one_line(text), _escaped, html.escape)


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", text)


def code(text: str) -> str:
    """Return a name in a monospaced font."""
    return f"<code>{escape(text)}</code>"


def of_comparison(comparison: Comparison, limit: int = LIMIT) -> str:
    """Return two runs compared: the decision, what to look at first, the rest folded."""
    decision = decide(comparison)
    lines = [f"## {escape(str(decision))}", ""]
    lines += (
        ["To know, run:", "", f"    {visible(decision.command)}", ""] if decision.command else []
    )
    if comparison.machines:
        machines = escape(comparison.machines)
        lines += [f"Costs are not compared, because the machines differ: {machines}.", ""]
    lines += [f"> {escape(caution)}\n" for caution in comparison.notes]
    if causes := [*attribution_text.lines(comparison)]:
        title = attribution_text.title(comparison)
        lines += [f"### {title[0].upper()}{title[1:]}", "", *(f"- {escape(c)}" for c in causes), ""]
    groups = case_groups.of_comparison(comparison)
    worse = [group for group in groups if group.kind in WORSE]
    rest = [group for group in groups if group.kind not in WORSE]
    if worse:
        lines += ["### Look at first", "", *_table(worse[:OPEN], details=True), ""]
    for kind in dict.fromkeys(group.kind for group in (*worse[OPEN:], *rest)):
        some = [group for group in (*worse[OPEN:], *rest) if group.kind == kind]
        cases = sum(len(group.cases) for group in some)
        lines += _folded(f"{cases} {kind}: {MEANING[kind]}", _table(some))
    for kind in FOLDED:
        found = [item.case for item in comparison.of(kind)]
        if found:
            lines += _folded(f"{len(found)} {kind}: {MEANING[kind]}", _list(found))
    notes = [
        f"{item.case}: {change.aspect}: {change.text}"
        for item in comparison.cases
        for change in item.changes
        if change.effect == "note" and change.aspect
    ]
    if notes:
        lines += _folded(f"notes: {count(len(notes), 'difference')}", _list(notes))
    if groups_of_changes := environment_text.groups(comparison):
        lines += _folded("The environments differ", _environment(groups_of_changes))
    return fit(lines, limit)


def of_run(run: Archive, limit: int = LIMIT, known: Sequence[Known] = ()) -> str:
    """Return one stored run. See :func:`of_cases`."""
    found = culprit_groups.of_run(run, known)
    notes = [*titles.notes_on(run.header), *culprit_groups.unmatched_in(run, known)]
    return of_cases(results_of(run), found, run.header.environment, notes=notes, limit=limit)


def of_cases(
    results: Mapping[str, CaseResult],
    culprits: Sequence[Culprit],
    environment: Environment | None,
    *,
    notes: Sequence[str] = (),
    limit: int = LIMIT,
) -> str:
    """Return one run: how many cases are good, what failed, then every case, folded.

    Args:
        results: The results of all planned cases.
        culprits: The culprits of all failures.
        environment: Where they were observed.
        notes: What else a reader should know, a line each.
        limit: Bytes that the text may have.
    """
    place = titles.where(environment, results)
    lines = [f"## {escape(titles.with_place(place, titles.of_cases(results)))}", ""]
    lines += [f"> {with_links(note)}\n" for note in notes]
    failed = culprit_groups.groups(culprits)
    if failed:
        lines += [f"### {counted(culprits)}", "", *_table(failed[:OPEN], details=True), ""]
    if failed[OPEN:]:
        lines += _folded(f"{len(failed) - OPEN} more culprits", _table(failed[OPEN:]))
    if known := culprit_groups.groups(culprits, expected=True):
        text = f"{count(len(known), 'known culprit')}, whose failures are expected"
        lines += _folded(text, _table(known))
    if groups := case_groups.of_verdicts(results, ("inconclusive",)):
        verdicts = count(sum(len(group.cases) for group in groups), "verdict")
        lines += _folded(f"{verdicts}: inconclusive", _table(groups))
    if rows := mode_rows({case: result.figures for case, result in results.items()}):
        lines += _folded(f"Which mode to use: {count(len(rows), 'setting')}", _modes_table(rows))
    lines += _folded(f"Figures of {count(len(results), 'case')}", _figures_table(results))
    return fit(lines, limit)


def exit_status(run: Archive) -> int:
    """Return the exit status of showing one run.

    It is 1 if anything failed, 2 if the result of a case is unknown, nothing was judged or shards
    are missing in a merged run, else 0.
    """
    results = results_of(run)
    if any(result.outcome == "failed" for result in results.values()):
        return 1
    if run.header.shard and run.closing is None:
        return 2
    return 2 if titles.is_open(results) else 0


def fit(lines: Sequence[str], limit: int) -> str:
    """Return the lines as text of at most ``limit`` bytes; tables lose rows at their end."""
    text = "\n".join(lines) + "\n"
    if len(text.encode()) <= limit:
        return text
    end = "\n\n</details>\n\n… shortened: GitHub takes 1 MiB. The run file holds everything.\n"
    room, kept = limit - len(end.encode()), list[str]()
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    opened = sum(line.startswith("<details>") for line in kept)
    closed = sum(line.startswith("</details>") for line in kept)
    return "\n".join(kept) + (end if opened > closed else end.replace("</details>\n\n", ""))


def _table(groups: Iterable[CaseGroup], *, details: bool = False) -> Iterator[str]:
    yield "| | case | what |"
    yield "|---|---|---|"
    for group in groups:
        what = with_links(group.what)
        if details and group.details:
            lines = "<br>".join(map(with_links, group.details[:8]))
            what += f"<details><summary>more</summary>{lines}</details>"
        what += "".join(f"<br>budget: {code(line)}" for line in group.proposals)
        who = code(group.cases[0])
        if len(group.cases) > 1:
            who += f" and {len(group.cases) - 1} more"
        yield f"| {group.kind.replace('_', ' ')} | {who} | {what} |"


def _list(items: Iterable[str]) -> Iterator[str]:
    yield from (f"- {code(item)}" for item in items)


def _environment(groups: Iterable[ChangeGroup]) -> Iterator[str]:
    for group in groups:
        about = "" if group.decides else " (does not decide)"
        yield f"- {group.name}{about}: {', '.join(escape(str(c)) for c in group.changes)}"


def _folded(summary: str, lines: Iterable[str]) -> list[str]:
    return [f"<details><summary>{escape(summary)}</summary>", "", *lines, "", "</details>", ""]


def _modes_table(rows: Iterable[ModeRow]) -> Iterator[str]:
    yield "| case | mode | over eager | over default | use |"
    yield "|---|---|--:|--:|---|"
    for row in rows:
        case, use = code(row.case), escape(" or ".join(row.use))
        for mode in row.modes:
            eager = mode.over_eager.text if mode.over_eager else ""
            usual = mode.over_default.text if mode.name != DEFAULT else ""
            yield f"| {case} | {escape(mode.name)} | {escape(eager)} | {escape(usual)} | {use} |"
            case = use = ""


def _figures_table(results: Mapping[str, CaseResult]) -> Iterator[str]:
    yield f"| | case | {' | '.join(column.name for column in COLUMNS)} |"
    yield f"|---|---|{'--:|' * len(COLUMNS)}"
    for case, result in results.items():
        outcome = (result.outcome or "not judged").replace("_", " ")
        shown = result.figures.shown
        cells = " | ".join(shown.get(column.name, "") for column in COLUMNS)
        yield f"| {outcome if result.observed else 'not observed'} | {code(case)} | {cells} |"
