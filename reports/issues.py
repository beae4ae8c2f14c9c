"""Issues for what failed in a run or became worse over nights: one for each culprit.

A workflow opens them, or updates those that are open, with ``.ci/publish-issues``.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from compilegate.culprits.known import Known
from compilegate.history.events import Event
from compilegate.history.nights import Night
from compilegate.output.visible import visible
from compilegate.reports import culprit_groups, history_text
from compilegate.reports.markdown import code, escape, with_links
from compilegate.reports.text import count, cut
from compilegate.runs.archive import Archive
from compilegate.runs.reproduction import command, files_of

#: As many cases, and characters of a title, as an issue shows. GitHub allows 256.
CASES, TITLE = 20, 120


@dataclass(frozen=True)
class Issue:
    """What one culprit did.

    Attributes:
        key: Names the culprit. The issue of the same key is the same one on another night.
        title: The headline, in one line.
        body: Markdown.
    """

    key: str
    title: str
    body: str


def of_run(run: Archive, workflow: str, known: Sequence[Known] = ()) -> list[Issue]:
    """Return the issues of a run: one for each culprit that no budget expects.

    Args:
        run: The run.
        workflow: What made it, such as ``nightly``. Each workflow has issues of its own.
        known: What a team knows.
    """
    versions = run.header.environment.versions
    found = []
    for culprit in culprit_groups.of_run(run, known):
        if culprit.is_expected:
            continue
        where = f"{culprit.aspect}: " if culprit.aspect else ""
        title = f"{workflow}: {where}{culprit.text}"
        cases = [f"- {code(case)}" for case in culprit.cases[:CASES]]
        if len(culprit.cases) > CASES:
            cases.append(f"- and {len(culprit.cases) - CASES} more")
        lines = [
            with_links(where + culprit.labelled),
            "",
            f"torch {escape(versions.get('torch', 'unknown'))}, {escape(run.header.created)}, "
            f"{count(len(culprit.cases), 'case')}, {escape(', '.join(culprit.aspects))}:",
            "",
            *cases,
            *_reproduction(run, culprit.cases[0]),
        ]
        found.append(_issue(f"{workflow}: {culprit.key!r}", title, lines))
    return found


def _reproduction(run: Archive, case: str) -> list[str]:
    seen = run.seen(case).observation
    if seen is None:
        return []
    return ["", "To reproduce it:", "", f"    {visible(command(seen, files_of(run.header)))}"]


def of_events(events: Iterable[Event], words: Sequence[str], workflow: str) -> list[Issue]:
    """Return the issues of a history: one for each cause of figures that became worse for good.

    Without a known cause, figures that became worse on one night are one issue. Further nights on
    which the same figure became worse belong to it: a drift has many.

    Args:
        events: The changes, the newest first.
        words: The command that confirms those of the newest night.
        workflow: What made the runs.
    """
    nights: dict[Night, list[Event]] = {}
    for event in events:
        if event.is_worse and event.holds:
            nights.setdefault(event.night, []).append(event)
    by_cause: dict[str, list[Event]] = {}
    for together in nights.values():
        # The same change may be found on a neighbouring night later.
        cause = together[0].cause or together[0].figure.name
        by_cause.setdefault(cause, []).extend(together)
    newest = next(iter(nights), None)
    return [
        _of_cause(cause, together, words if together[0].night == newest else (), workflow)
        for cause, together in by_cause.items()
    ]


def _of_cause(cause: str, together: Sequence[Event], words: Sequence[str], workflow: str) -> Issue:
    lines = []
    for event in together[:CASES]:
        cases = [code(case) for case in event.cases[:CASES]]
        if len(event.cases) > CASES:
            cases.append(f"and {len(event.cases) - CASES} more")
        who = f": {', '.join(cases)}" if cases else ""
        lines.append(f"- {escape(history_text.sentence(event))}{who}")
    if words:
        lines += ["", "To confirm it in fresh pairs:", "", f"    {visible(shlex.join(words))}"]
    more = f", and {len(together) - 1} more" if len(together) > 1 else ""
    title = f"{workflow}: {history_text.sentence(together[0])}{more}"
    return _issue(f"{workflow}: {cause}", title, lines)


def _issue(key: str, title: str, lines: Sequence[str]) -> Issue:
    # A key goes into a comment of Markdown and a search, so only its digest does.
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return Issue(digest, cut(visible(" ".join(title.split())), TITLE), "\n".join(lines) + "\n")


def dump(issues: Sequence[Issue]) -> str:
    """Return issues as JSON, for ``.ci/publish-issues``."""
    return json.dumps([asdict(issue) for issue in issues], ensure_ascii=False, indent=1) + "\n"
