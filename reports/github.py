"""What GitHub Actions shows of a session: annotations, and the job summary of the step.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
https://docs.github.com/actions/reference/workflows-and-actions/variables
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compilegate.culprits.grouping import Culprit
from compilegate.output import workflow_command
from compilegate.records.environment import Environment
from compilegate.reports import culprit_groups, markdown
from compilegate.reports.case_groups import CaseGroup
from compilegate.reports.case_result import CaseResult
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


class JobSummary:
    """The annotations and the job summary of a step, which may be written again."""

    def __init__(self) -> None:
        self._is_annotated = False
        #: Where in the file the own text begins, and where it ends.
        self._begin, self._end = 0, -1

    def error_commands(self, shown: Shown) -> Iterator[str]:
        """Yield the workflow commands that show errors next to the workflow's run, once."""
        if os.environ.get("GITHUB_ACTIONS") != "true" or self._is_annotated:
            return
        self._is_annotated = True
        decision = decide(shown.comparison) if shown.comparison else None
        bad_news = str(decision) if decision and decision.answer != "safe" else ""
        yield from error_annotations(culprit_groups.groups(shown.culprits), bad_news)

    def write(self, shown: Shown) -> str:
        """Write the job summary, if the step has one, in the place of what was written first.

        Returns:
            Why it was not written; empty if it was, or the step has none.
        """
        if not (name := os.environ.get("GITHUB_STEP_SUMMARY")):
            return ""

        def text(room: int) -> str:
            comparison = shown.comparison
            upgrade = markdown.of_comparison(comparison, room // 2) if comparison else ""
            rest = room - len(upgrade.encode()) - 1
            cases = markdown.of_cases(shown.results, shown.culprits, shown.environment, limit=rest)
            return f"{upgrade}\n{cases}"

        path = Path(name)
        if _size(path) != self._end:  # somebody else has added to it, or nothing was written
            self._begin = _size(path)
        trouble = append_summary(path, text, markdown.LIMIT, self._begin)
        self._end = _size(path)
        return trouble


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


def append_summary(
    path: Path, write: Callable[[int], str], limit: int, begin: int | None = None
) -> str:
    """Add a text to the job summary of a step; other commands of the step may have begun it.

    Args:
        path: The file that ``$GITHUB_STEP_SUMMARY`` names.
        write: Makes the text, given the bytes that it may have.
        limit: The largest size of the file, in bytes.
        begin: Where the text begins, in bytes, and replaces what follows; by default at the end.

    Returns:
        Why nothing was written; empty if the text was written.
    """
    try:
        taken = _size(path) if begin is None else begin
        room = limit - taken
        if room < 2**10:
            return f"{path} is full: it has {taken} bytes"
        text = write(room)
        with path.open("a", encoding="utf-8") as file:
            if begin is not None and begin < _size(path):
                file.truncate(begin)
            file.write(text)
    except OSError as error:
        return f"cannot write {path}: {error.strerror}"
    return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
