"""A run, or two compared, as one self-contained page that opens offline.

Jinja escapes everything that comes from a run, or the page's script sets it as text. Either way
characters that would act are shown as escapes. The page's security policy forbids other scripts and
loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from markupsafe import escape as escaped

from compilegate.culprits.grouping import counted
from compilegate.culprits.known import Known
from compilegate.output.addresses import linked
from compilegate.output.visible import visible_lines
from compilegate.records.case import AXES, LEFT_OUT
from compilegate.records.run import Header
from compilegate.reports import (
    attribution_text,
    case_groups,
    culprit_groups,
    environment_text,
    page_data,
    titles,
)
from compilegate.reports.case_groups import CaseGroup
from compilegate.reports.case_result import CaseResult, results_of
from compilegate.reports.columns import COLUMNS
from compilegate.reports.comparison_text import MEANING
from compilegate.reports.mode_table import ModeRow, mode_rows
from compilegate.reports.page_data import PageData
from compilegate.reports.speedup_means import SpeedupMean, speedup_means
from compilegate.runs.archive import Archive
from compilegate.upgrade.case_comparison import CLASSES, WORSE
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.decision import decide

PAGE = Path(__file__).parent / "page"
#: The page's script, in the order in which it is put together.
SCRIPTS = ("format", "data", "filters", "heatmap", "table", "charts", "rounds", "detail", "main")
#: Groups shown under "look at first".
FIRST = 6

#: Of all pages: texts are escaped and cleaned.
ENVIRONMENT = Environment(
    loader=FileSystemLoader(PAGE),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=lambda value: visible_lines(value) if type(value) is str else value,
    trim_blocks=True,
    lstrip_blocks=True,
)


def with_links(text: str) -> Markup:
    """Return a text whose addresses of http and https are links, and all else is escaped."""
    return Markup(linked(visible_lines(text), escaped, escaped))


ENVIRONMENT.filters["with_links"] = with_links

#: What an outcome means, in a few words.
_OUTCOME_MEANING = {
    "failed": "a verdict failed",
    "inconclusive": "the measurements do not decide",
    "expected_failure": "known to fail",
    "passed": "all verdicts are good",
    "skipped": "nothing was judged",
    "not judged": "observed only",
    "not observed": "planned, but not observed",
}


def of_run(run: Archive, known: Sequence[Known] = ()) -> Iterator[str]:
    """Yield the page of one stored run, in pieces.

    Args:
        run: The run.
        known: The culprits that a team knows.
    """
    data = PageData()
    results = results_of(run)
    for case in run.cases:
        record = run.seen(case)
        row = page_data.row_of_run(case, record)
        data.add(row, page_data.details(case, [(run.header, record)]))
    data.close()
    culprits = culprit_groups.of_run(run, known)
    failed = culprit_groups.groups(culprits)
    is_open = titles.is_open(results)
    missing = f"{len(run.missing)} of {len(run.header.planned)} planned cases were not observed"
    yield from _render(
        data,
        kinds=page_data.OUTCOMES,
        meanings=_OUTCOME_MEANING,
        worst=("failed", "not observed"),
        answer="failed" if failed else "cannot say" if is_open else "safe",
        verdict=titles.of_cases(results),
        where=titles.where(run.header.environment, results),
        also="",
        heading=counted(culprits),
        groups=[*failed, *culprit_groups.groups(culprits, expected=True)],
        means=speedup_means(
            {case: (None, found.figures) for case, found in results.items() if _is_quiet(found)}
        ),
        modes=mode_rows({case: found.figures for case, found in results.items()}),
        notes=[
            *titles.notes_on(run.header),
            *([missing] if run.missing else []),
            *culprit_groups.unmatched_in(run, known),
        ],
        headers={"run": run.header},
        differences=[],
    )


def _is_quiet(found: CaseResult) -> bool:
    """Whether the machine was quiet enough for the speedup of a case to say something."""
    speedup = found.verdicts.get("speedup")
    return speedup is None or speedup.outcome != "inconclusive"


def of_comparison(comparison: Comparison, baseline: Archive, candidate: Archive) -> Iterator[str]:
    """Yield the page of two runs compared, in pieces.

    Args:
        comparison: How the cases compare.
        baseline: The run of the version in use.
        candidate: The run of the version that may replace it.
    """
    data = PageData()
    before, now = results_of(baseline), results_of(candidate)
    pairs = {
        case: (before[case].figures if case in before and not comparison.machines else None, found)
        for case, found in ((case, result.figures) for case, result in now.items())
    }
    for item in comparison.cases:
        records = baseline.seen(item.case), candidate.seen(item.case)
        sides = [(baseline.header, records[0]), (candidate.header, records[1])]
        times_compare = not comparison.machines
        row = page_data.row_of_comparison(item, *records, times_compare=times_compare)
        data.add(row, page_data.details(item.case, sides, item))
    data.close()
    decision = decide(comparison)
    machines = f"costs are not compared, because the machines differ: {comparison.machines}"
    yield from _render(
        data,
        kinds=CLASSES,
        meanings=MEANING,
        worst=WORSE,
        answer=decision.answer,
        verdict=decision.answer + (f": {decision.because}" if decision.because else ""),
        where=decision.where,
        also=decision.counts,
        heading="Look at first",
        groups=case_groups.of_comparison(comparison, (*WORSE, "gone")),
        means=speedup_means(pairs),
        modes=mode_rows({case: found.figures for case, found in now.items()}),
        notes=[
            *attribution_text.lines(comparison),
            *([machines] if comparison.machines else []),
            *comparison.notes,
        ],
        headers={"baseline": comparison.baseline, "candidate": comparison.candidate},
        differences=environment_text.groups(comparison),
    )


def _render(
    data: PageData,
    *,
    kinds: tuple[str, ...],
    meanings: dict[str, str],
    worst: tuple[str, ...],
    groups: list[CaseGroup],
    means: list[SpeedupMean],
    modes: list[ModeRow],
    headers: dict[str, Header],
    **texts: Any,
) -> Iterator[str]:
    script = "\n".join((PAGE / f"{name}.js").read_text() for name in SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    shown = {
        "fields": page_data.FIELDS,
        "columns": [page_data.column(column) for column in COLUMNS],
        "axes": AXES,
        "leftOut": LEFT_OUT,
        "kinds": [[kind, meanings[kind]] for kind in kinds],
        "worst": list(worst),
        "compared": len(headers) == 2,
        "chunk": page_data.CHUNK,
        "rows": data.rows,
    }
    template = ENVIRONMENT.get_template("page.html.j2")
    yield from template.stream(
        **texts,
        first=groups[:FIRST],
        rest=groups[FIRST:],
        means=means,
        modes=modes,
        changed=any(mean.before is not None for mean in means),
        environments={name: page_data.environment(header) for name, header in headers.items()},
        compared=len(headers) == 2,
        script_hash=digest,
        style=Markup((PAGE / "page.css").read_text()),
        script=Markup(script),
        data=Markup(page_data.encode(shown)),
        chunks=data.chunks,
    )
