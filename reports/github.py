"""What GitHub Actions shows of a session: annotations, and the job summary of the step.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
https://docs.github.com/actions/reference/workflows-and-actions/variables
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from compilegate.output import workflow_command
from compilegate.records.environment import Environment
from compilegate.reports import case_groups, markdown
from compilegate.reports.case_groups import CaseGroup
from compilegate.reports.case_result import CaseResult
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.decision import decide

#: GitHub shows this many errors of a step.
ANNOTATIONS = 10
#: Characters after which a message is cut.
LENGTH = 1000


def error_commands(
    results: Mapping[str, CaseResult], comparison: Comparison | None
) -> Iterator[str]:
    """Yield the workflow commands that show errors next to the workflow's run.

    Args:
        results: The results of all planned cases.
        comparison: The session compared with an earlier run, if it was.
    """
    if os.environ.get("GITHUB_ACTIONS") == "true":
        decision = decide(comparison) if comparison else None
        bad_news = str(decision) if decision and decision.answer != "safe" else ""
        yield from error_annotations(case_groups.of_verdicts(results, ("failed",)), bad_news)


def write_summary(
    results: Mapping[str, CaseResult],
    environment: Environment | None,
    comparison: Comparison | None,
) -> str:
    """Write the job summary, if the step has one.

    Args:
        results: The results of all planned cases.
        environment: Where they were observed.
        comparison: The session compared with an earlier run, if it was.

    Returns:
        Why it was not written; empty if it was, or the step has none.
    """
    if not (path := os.environ.get("GITHUB_STEP_SUMMARY")):
        return ""

    def write(room: int) -> str:
        upgrade = markdown.of_comparison(comparison, room // 2) if comparison else ""
        rest = room - len(upgrade.encode()) - 1
        return f"{upgrade}\n{markdown.of_cases(results, environment, rest)}"

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
