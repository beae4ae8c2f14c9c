"""What GitHub Actions shows of a session: annotations, and the job summary of the step.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
https://docs.github.com/actions/reference/workflows-and-actions/variables
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compilegate.output import workflow_command
from compilegate.records.environment import Environment
from compilegate.reports import culprit_groups, markdown
from compilegate.reports.case_groups import CaseGroup
from compilegate.reports.case_result import CaseResult
from compilegate.triage.culprits import Culprit
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.decision import decide

#: GitHub shows this many errors of a step.
ANNOTATIONS = 10
#: Characters after which a message is cut.
LENGTH = 1000


@dataclass(frozen=True)
class Shown:
    """What the job summary shows of a session.

    Attributes:
        results: The results of all planned cases.
        culprits: The culprits of all failures.
        environment: Where they were observed.
        comparison: The session compared with an earlier run, if it was.
    """

    results: Mapping[str, CaseResult]
    culprits: Sequence[Culprit]
    environment: Environment | None
    comparison: Comparison | None


def error_commands(culprits: Sequence[Culprit], comparison: Comparison | None) -> Iterator[str]:
    """Yield the workflow commands that show errors next to the workflow's run.

    Args:
        culprits: The culprits of all failures.
        comparison: The session compared with an earlier run, if it was.
    """
    if os.environ.get("GITHUB_ACTIONS") == "true":
        decision = decide(comparison) if comparison else None
        bad_news = str(decision) if decision and decision.answer != "safe" else ""
        yield from error_annotations(culprit_groups.groups(culprits), bad_news)


def write_summary(shown: Shown) -> str:
    """Write the job summary, if the step has one.

    Returns:
        Why it was not written; empty if it was, or the step has none.
    """
    if not (path := os.environ.get("GITHUB_STEP_SUMMARY")):
        return ""

    def write(room: int) -> str:
        comparison = shown.comparison
        upgrade = markdown.of_comparison(comparison, room // 2) if comparison else ""
        rest = room - len(upgrade.encode()) - 1
        cases = markdown.of_cases(shown.results, shown.culprits, shown.environment, limit=rest)
        return f"{upgrade}\n{cases}"

    return append_summary(Path(path), write, markdown.LIMIT)


def error_annotations(groups: Sequence[CaseGroup], decision: str = "") -> Iterator[str]:
    """Yield the decision, an error for each group that GitHub shows, and the number of the rest.

    Args:
        groups: What failed.
        decision: The decision; empty where it is *safe* or there is none.
    """
    room = ANNOTATIONS - bool(decision)
    shown = groups if len(groups) <= room else groups[: room - 1]
    if decision:
        yield workflow_command.error("compilegate", decision[:LENGTH])
    for group in shown:
        yield workflow_command.error(f"compilegate: {group.who}", group.what[:LENGTH])
    if len(shown) < len(groups):
        more = f"{len(groups) - len(shown)} more: see the job summary"
        yield workflow_command.error("compilegate", more)


def append_summary(path: Path, write: Callable[[int], str], limit: int) -> str:
    """Add a text to the job summary of a step; other commands of the step may have begun it.

    Args:
        path: The file that ``$GITHUB_STEP_SUMMARY`` names.
        write: Makes the text, given the bytes that it may have.
        limit: The largest size of the file, in bytes.

    Returns:
        Why nothing was written; empty if the text was written.
    """
    try:
        taken = path.stat().st_size if path.exists() else 0
        room = limit - taken
        if room < 2**10:
            return f"{path} is full: it has {taken} bytes"
        with path.open("a", encoding="utf-8") as file:
            file.write(write(room))
    except OSError as error:
        return f"cannot write {path}: {error.strerror}"
    return ""
