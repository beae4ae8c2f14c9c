"""A run, or two compared, as one self-contained page: it works offline, and opens anywhere.

Everything that comes from a run is escaped by Jinja or set as text by the page's script, and the
page's own security policy lets no other script run and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from compilegate.records.case import AXES
from compilegate.records.run import Header
from compilegate.reports import markdown, page_data
from compilegate.reports.comparison_text import MEANING
from compilegate.reports.page_data import PageData
from compilegate.reports.rows import Row, rows_of, verdict_rows
from compilegate.runs.archive import Archive
from compilegate.upgrade.comparison import CLASSES, WORSE, Comparison
from compilegate.upgrade.decision import decide

PAGE = Path(__file__).parent / "page"
#: The page's script, in the order in which it is put together.
SCRIPTS = ("format", "data", "filters", "heatmap", "table", "charts", "rounds", "detail", "main")
#: Rows shown under "look at first".
FIRST = 6

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(PAGE),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

#: What an outcome means, in a few words.
_OUTCOME_MEANING = {
    "failed": "a verdict failed",
    "inconclusive": "not to be told",
    "expected_failure": "known to fail",
    "passed": "all verdicts good",
    "skipped": "nothing was judged",
    "not judged": "observed only",
    "not observed": "planned, but not observed",
}


def of_run(run: Archive) -> Iterator[str]:
    """The page of one stored run, in pieces."""
    data = PageData()
    standings = markdown.standings(run)
    for case in run.cases:
        seen = run.seen(case)
        data.add(page_data.row_of_run(case, seen), page_data.details(case, [(run.header, seen)]))
    data.close()
    failed = verdict_rows(standings, ("failed",))
    answer = ("failed", "cannot say", "safe")[0 if failed else 1 if run.missing else 2]
    where, _, besides = markdown.title(standings, run.header.environment).partition(": ")
    notes = [f"{len(run.missing)} of {len(run.header.planned)} planned cases were not observed"]
    yield from _render(
        data,
        kinds=page_data.OUTCOMES,
        meanings=_OUTCOME_MEANING,
        worst=("failed", "not observed"),
        answer=answer,
        verdict=besides or where,
        where=where,
        because="",
        rows=failed,
        notes=notes if run.missing else [],
        headers={"run": run.header},
    )


def of_comparison(comparison: Comparison, baseline: Archive, candidate: Archive) -> Iterator[str]:
    """The page of two runs compared, in pieces.

    Args:
        comparison: What became of the cases.
        baseline: The run of what is in use.
        candidate: The run of what is to take its place.
    """
    data = PageData()
    for item in comparison.cases:
        before, now = baseline.seen(item.case), candidate.seen(item.case)
        sides = [(baseline.header, before), (candidate.header, now)]
        times_compare = not comparison.machines
        row = page_data.row_of_comparison(item, before, now, times_compare=times_compare)
        data.add(row, page_data.details(item.case, sides, item))
    data.close()
    decision = decide(comparison)
    machines = f"times are not comparable, the machines differ: {comparison.machines}"
    yield from _render(
        data,
        kinds=CLASSES,
        meanings=MEANING,
        worst=WORSE,
        answer=decision.answer,
        verdict=decision.answer + (f": {decision.because}" if decision.because else ""),
        where=decision.where,
        because=decision.besides,
        rows=rows_of(comparison, (*WORSE, "gone")),
        notes=[*([machines] if comparison.machines else []), *comparison.cautions],
        headers={"baseline": comparison.baseline, "candidate": comparison.candidate},
    )


def _render(
    data: PageData,
    *,
    kinds: tuple[str, ...],
    meanings: dict[str, str],
    worst: tuple[str, ...],
    rows: list[Row],
    headers: dict[str, Header],
    **told: Any,
) -> Iterator[str]:
    script = "\n".join((PAGE / f"{name}.js").read_text() for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    shown = {
        "columns": page_data.COLUMNS,
        "axes": AXES,
        "kinds": [[kind, meanings[kind]] for kind in kinds],
        "worst": list(worst),
        "compared": len(headers) == 2,
        "chunk": page_data.CHUNK,
        "rows": data.rows,
    }
    template = _ENVIRONMENT.get_template("page.html.j2")
    yield from template.stream(
        **told,
        first=rows[:FIRST],
        more=max(len(rows) - FIRST, 0),
        environments={name: page_data.environment(header) for name, header in headers.items()},
        compared=len(headers) == 2,
        script_hash=digest,
        style=Markup((PAGE / "page.css").read_text()),
        script=Markup(script),
        data=Markup(page_data.encode(shown)),
        chunks=data.chunks,
    )
