"""A run, or two compared, as Markdown for a GitHub job summary.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands#adding-a-job-summary
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compilegate.records.environment import Environment
from compilegate.reports.case_figures import Figures, Standing
from compilegate.reports.comparison_text import MEANING, plain
from compilegate.reports.rows import Row, rows_of, verdict_rows
from compilegate.reports.summary import count, where
from compilegate.runs.archive import Archive
from compilegate.upgrade.comparison import WORSE, Class, Comparison
from compilegate.upgrade.decision import decide

#: GitHub drops the summary of a step that is larger than 1 MiB as a whole.
LIMIT = 2**20 - 2**14
#: Rows that stand open; the rest is folded.
OPEN = 20
#: Classes of which only the names are listed.
FOLDED: tuple[Class, ...] = ("new", "unchanged")

_SPECIAL = re.compile(r"[\\`*{}\[\]<>#|~&$!@]|(?<!\w)_|_(?!\w)|(?<=http):|(?<=https):|(?<=www)\.")


def escape(text: str) -> str:
    """Text that Markdown, HTML and a table's cell show as it is, in one line."""
    line = plain(" ".join(text.split()))
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", line)


def code(text: str) -> str:
    """A name in a monospaced font."""
    return f"<code>{escape(text)}</code>"


def of_comparison(comparison: Comparison, limit: int = LIMIT) -> str:
    """Two runs compared: the decision, what to look at first, a table, the rest folded."""
    decision = decide(comparison)
    lines = [f"## {escape(str(decision))}", ""]
    if comparison.machines:
        machines = escape(comparison.machines)
        lines += [f"Times are not comparable, the machines differ: {machines}.", ""]
    lines += [f"> {escape(caution)}\n" for caution in comparison.cautions]
    rows = rows_of(comparison)
    worse = [row for row in rows if row.kind in WORSE]
    rest = [row for row in rows if row.kind not in WORSE]
    if worse:
        lines += ["### Look at first", "", *_table(worse[:OPEN], details=True), ""]
    for kind in dict.fromkeys(row.kind for row in (*worse[OPEN:], *rest)):
        some = [row for row in (*worse[OPEN:], *rest) if row.kind == kind]
        cases = sum(len(row.cases) for row in some)
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
        lines += _folded(f"decides nothing: {count(len(notes), 'difference')}", _list(notes))
    return fit(lines, limit)


def of_run(run: Archive, limit: int = LIMIT) -> str:
    """One stored run. See :func:`of_cases`."""
    return of_cases(standings(run), run.header.environment, limit)


def standings(run: Archive) -> dict[str, Standing]:
    """Where each case of a stored run stands."""
    return {case: Standing.of(run.seen(case)) for case in run.cases}


def of_cases(
    cases: Mapping[str, Standing], environment: Environment | None, limit: int = LIMIT
) -> str:
    """One run: how many cases are good, what failed, then every case, folded.

    Args:
        cases: What is known of each planned case.
        environment: Where they were observed.
        limit: Bytes that the text may have.
    """
    lines = [f"## {escape(title(cases, environment))}", ""]
    failed = verdict_rows(cases, ("failed",))
    if failed:
        lines += [*_table(failed[:OPEN]), ""]
    if failed[OPEN:]:
        lines += _folded(f"{len(failed) - OPEN} more rows of what failed", _table(failed[OPEN:]))
    for outcome in ("inconclusive", "expected_failure"):
        if rows := verdict_rows(cases, (outcome,)):
            verdicts = count(sum(len(row.cases) for row in rows), "verdict")
            lines += _folded(f"{verdicts}: {outcome.replace('_', ' ')}", _table(rows))
    lines += _folded(f"All {len(cases)} cases", _figures_table(cases))
    return fit(lines, limit)


def title(cases: Mapping[str, Standing], environment: Environment | None) -> str:
    """Where, how many cases, and how many of them are not good."""
    counts = Counter(standing.outcome for standing in cases.values())
    parts = [count(len(cases), "case")]
    parts.append(f"{counts['failed']} failed" if counts["failed"] else "none failed")
    if counts["inconclusive"]:
        parts.append(f"{counts['inconclusive']} inconclusive")
    if missing := sum(not standing.observed for standing in cases.values()):
        parts.append(f"{missing} not observed")
    return where(environment, cases) + ", ".join(parts)


def exit_status(run: Archive) -> int:
    """Of showing one run: 1 if anything failed, 2 if it is incomplete, else 0."""
    verdicts = (verdict for case in run.cases for verdict in run.seen(case).verdicts.values())
    failed = any(verdict.outcome == "failed" for verdict in verdicts)
    return 1 if failed else 2 if run.missing else 0


def fit(lines: Sequence[str], limit: int) -> str:
    """The lines as text of at most so many bytes; rows are left out from the end of tables."""
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


def _table(rows: Iterable[Row], *, details: bool = False) -> Iterator[str]:
    yield "| | case | what |"
    yield "|---|---|---|"
    for row in rows:
        what = escape(row.what)
        if details and row.details:
            lines = "<br>".join(escape(line) for line in row.details[:8])
            what += f"<details><summary>more</summary>{lines}</details>"
        what += "".join(f"<br>budget: {code(line)}" for line in row.proposals)
        who = code(row.cases[0])
        if len(row.cases) > 1:
            who += f" and {len(row.cases) - 1} more"
        yield f"| {row.kind.replace('_', ' ')} | {who} | {what} |"


def _list(items: Iterable[str]) -> Iterator[str]:
    yield from (f"- {code(item)}" for item in items)


def _folded(summary: str, lines: Iterable[str]) -> list[str]:
    return [f"<details><summary>{escape(summary)}</summary>", "", *lines, "", "</details>", ""]


def _figures_table(cases: Mapping[str, Standing]) -> Iterator[str]:
    yield "| | case | speedup | compile | memory | breaks | recompiles | forward | gradients |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    for case, standing in cases.items():
        judged = (standing.outcome or "not judged").replace("_", " ")
        cells = " | ".join(_cells(standing.figures))
        yield f"| {judged if standing.observed else 'not observed'} | {code(case)} | {cells} |"


def _cells(found: Figures) -> Iterator[str]:
    yield f"{found.speedup.value:.2f}×" if found.speedup else ""
    cache = "" if found.cold else " warm"
    yield f"{found.compile_s:.1f} s{cache}" if found.compile_s is not None else ""
    yield f"{found.memory_ratio:.2f}×" if found.memory_ratio is not None else ""
    yield str(found.breaks) if found.breaks is not None else ""
    yield str(found.recompilations) if found.recompilations is not None else ""
    yield f"{found.forward:.1g}" if found.forward is not None else ""
    yield f"{found.gradients:.1g}" if found.gradients is not None else ""
