"""What GitHub Actions is told of a session, where one runs in it.

https://docs.github.com/actions/reference/workflows-and-actions/variables
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from compilegate.records.environment import Environment
from compilegate.reports import github, markdown
from compilegate.reports.case_figures import Standing
from compilegate.reports.rows import verdict_rows
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.decision import decide


def tell(
    cases: Mapping[str, Standing], environment: Environment | None, comparison: Comparison | None
) -> Iterator[str]:
    """Write the job summary, if there is one; the lines that are workflow commands.

    Args:
        cases: What is known of each planned case.
        environment: Where they were observed.
        comparison: The session held against an earlier run, if it was.
    """
    if os.environ.get("GITHUB_ACTIONS") == "true":
        decision = decide(comparison) if comparison else None
        told = str(decision) if decision and decision.answer != "safe" else ""
        yield from github.error_annotations(verdict_rows(cases, ("failed",)), told)
    if not (path := os.environ.get("GITHUB_STEP_SUMMARY")):
        return

    def write(room: int) -> str:
        decision = markdown.of_comparison(comparison, room // 2) if comparison else ""
        rest = room - len(decision.encode()) - 1
        return f"{decision}\n{markdown.of_cases(cases, environment, rest)}"

    if trouble := github.append_summary(Path(path), write, markdown.LIMIT):
        yield f"no job summary: {trouble}"
