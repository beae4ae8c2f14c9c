"""A compiled optimizer ends where the eager one ends, and a schedule compiles nothing again.

Its speed is judged where a budget asks for it.
https://docs.pytorch.org/tutorials/recipes/compiling_optimizer.html
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """The loops are eager's, and a step is as much faster than eager's as budgeted."""
    finding = judge_steps(observation, "compiled_optimizer")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["compiled_optimizer"].figures
    if "optimizer_compiled_ms" not in figures:
        return finding
    low, high = figures["optimizer_speedup_low_x"], figures["optimizer_speedup_high_x"]
    times = "{optimizer_eager_ms:.3g} ms, compiled {optimizer_compiled_ms:.3g} ms".format(**figures)
    text = f"a step of AdamW takes {times}: {low:.2f} to {high:.2f} times as fast"
    least = budget.min_optimizer_speedup
    if least is None or low >= least:
        return replace(finding, summary=f"{finding.summary}; {text}")
    allowed = f"{text}, at least {least:g} budgeted"
    return Finding("failed" if high < least else "inconclusive", allowed)


@pytest.mark.aspect("compiled_optimizer")
def test_a_compiled_optimizer_ends_where_the_eager_one_ends(judge: Judge) -> None:
    judge(rule)
