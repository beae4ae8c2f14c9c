"""Compiling calls no more Python functions than budgeted, or than under the PyTorch in use.

Seconds of compiling vary from machine to machine and from minute to minute, the number of calls
does not. It is counted in a few cases only. ``docs/judging.md`` has more about it.
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.records.observation import Observation
from compilegate.records.performance import CompileWork
from compilegate.runs.archive import CaseRecord
from compilegate.upgrade import work_growth


def rule(observation: Observation, budget: Budget, before: CompileWork | None = None) -> Finding:
    """The calls are within budget, and grew no more than it allows."""
    work = observation.compile_work
    assert work is not None
    text = f"{work.total:,} Python calls while compiling"
    if budget.max_compile_calls is not None:
        text += f", at most {budget.max_compile_calls:,} allowed"
        if work.total > budget.max_compile_calls:
            return Finding("failed", text, proposal={"max_compile_calls": int(1.1 * work.total)})
    why = work_growth.incomparable(before, work) if before is not None else ""
    if before is not None and not why:
        allowed = budget.max_compile_calls_growth
        found = work_growth.growth(before, work, allowed)
        text = f"{found.text}, at most {allowed:+.1%} allowed"
        return Finding("failed" if found.kind == "more" else "passed", text)
    if budget.max_compile_calls is not None:  # growth that is accepted does not show here
        return Finding("passed", text, indicative=True)
    return Finding("skipped", f"{why or budget.why_unjudged('max_compile_calls')}: {text}")


@pytest.mark.aspect("compile_work")
def test_compiling_calls_no_more_python_than_budgeted(judge: Judge, before: CaseRecord) -> None:
    earlier = before.observation.compile_work if before.observation is not None else None
    judge(lambda observation, budget: rule(observation, budget, earlier))
