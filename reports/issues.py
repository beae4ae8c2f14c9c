"""Issues for what failed in a run or became worse over nights: one for each culprit.

A workflow opens them, or adds to those that are open, with ``.ci/publish-issues``.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from compilegate.history.events import Event
from compilegate.history.nights import Night
from compilegate.output.visible import visible
from compilegate.records.case import model_of
from compilegate.reports import case_groups, history_text
from compilegate.reports.case_groups import CaseGroup
from compilegate.reports.case_result import CaseResult, results_of
from compilegate.reports.markdown import code, escape
from compilegate.reports.text import count, cut
from compilegate.runs.archive import Archive
from compilegate.runs.reproduction import command, files_of
from compilegate.zoo import registry

#: As many groups of cases, and characters of a title, as an issue shows. GitHub allows 256.
GROUPS, TITLE = 20, 120


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


@dataclass(frozen=True)
class Culprit:
    """Cases that probably fail for one reason.

    Attributes:
        name: What they have in common: ``forward of transformers``.
        groups: The cases, in groups that have the same result.
    """

    name: str
    groups: tuple[CaseGroup, ...]

    @property
    def cases(self) -> list[str]:
        """Their ids."""
        return list(dict.fromkeys(case for group in self.groups for case in group.cases))


def culprits(results: Mapping[str, CaseResult]) -> list[Culprit]:
    """Return what failed, by what it probably fails for: the aspect, and the family of the model.

    Args:
        results: By case id.
    """
    families = {name: model.family for name, model in registry.load().items()}
    alike: dict[str, list[CaseGroup]] = {}
    for group in case_groups.of_verdicts(results, ("failed",)):
        model = model_of(group.cases[0])
        what = group.aspect or "all aspects"
        alike.setdefault(f"{what} of {families.get(model, model)}", []).append(group)
    return [Culprit(name, tuple(groups)) for name, groups in alike.items()]


def of_run(run: Archive, workflow: str) -> list[Issue]:
    """Return the issues of a run.

    Args:
        run: The run.
        workflow: What made it, such as ``nightly``. Each workflow has issues of its own.
    """
    found = []
    for culprit in culprits(results_of(run)):
        title = f"{workflow}: {culprit.name} fails in {count(len(culprit.cases), 'case')}"
        versions = run.header.environment.versions
        lines = [f"torch {escape(versions.get('torch', 'unknown'))}, {run.header.created}.", ""]
        for group in culprit.groups[:GROUPS]:
            lines += [f"- {code(group.who)}: {escape(cut(group.what, 500))}"]
        if len(culprit.groups) > GROUPS:
            lines += [f"- and {len(culprit.groups) - GROUPS} more"]
        lines += ["", *_reproduction(run, culprit.cases[0])]
        found.append(_issue(f"{workflow}: {culprit.name}", title, lines))
    return found


def _reproduction(run: Archive, case: str) -> list[str]:
    seen = run.seen(case).observation
    if seen is None:
        return []
    return ["To reproduce it:", "", f"    {visible(command(seen, files_of(run.header)))}"]


def of_events(events: Iterable[Event], words: Sequence[str], workflow: str) -> list[Issue]:
    """Return the issues of a history: one for each night on which figures became worse for good.

    Args:
        events: The changes, the newest first.
        words: The command that confirms those of the newest night.
        workflow: What made the runs.
    """
    nights: dict[Night, list[Event]] = {}
    for event in events:
        if event.is_worse and event.holds:
            nights.setdefault(event.night, []).append(event)
    found = []
    for index, (night, together) in enumerate(nights.items()):
        lines = []
        for event in together[:GROUPS]:
            cases = [code(case) for case in event.cases[:GROUPS]]
            if len(event.cases) > GROUPS:
                cases.append(f"and {len(event.cases) - GROUPS} more")
            who = f": {', '.join(cases)}" if cases else ""
            lines.append(f"- {escape(history_text.sentence(event))}{who}")
        if index == 0:
            lines += ["", "To confirm it in fresh pairs:", "", f"    {visible(shlex.join(words))}"]
        more = f", and {len(together) - 1} more" if len(together) > 1 else ""
        title = f"{workflow}: {history_text.sentence(together[0])}{more}"
        # The same change may be found on a neighbouring night later, but with the same cause.
        key = f"{workflow}: {together[0].cause or night.date}"
        found.append(_issue(key, title, lines))
    return found


def _issue(key: str, title: str, lines: Sequence[str]) -> Issue:
    # A key goes into a comment of Markdown and a search, so only its digest does.
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return Issue(digest, cut(visible(" ".join(title.split())), TITLE), "\n".join(lines) + "\n")


def dump(issues: Sequence[Issue]) -> str:
    """Return issues as JSON, for ``.ci/publish-issues``."""
    return json.dumps([asdict(issue) for issue in issues], ensure_ascii=False, indent=1) + "\n"
