"""A team's own metric on its own data is no worse in compiled code than in eager.

Both sides score the same samples, and the mean of the paired differences is judged by an interval.
Compiled code may lose twice what rounding moves the scores of eager, and what a budget allows.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation
from compilegate.records.wording import counted

#: Scores of compiled code may be as far from the reference's as eager's are, on the other side.
ROUNDING = 2.0


def rule(observation: Observation, budget: Budget) -> Finding:
    """The metric falls by no more than the allowed loss, as far as its interval shows."""
    finding = judge_steps(observation, "metric")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["metric"].figures
    text = _described(figures)
    allowed = budget.max_metric_loss + ROUNDING * figures.get("noise_score", 0.0)
    if figures["change_high_score"] < -allowed:
        return Finding("failed", f"{text}; a loss of {allowed:.2g} is allowed")
    if budget.max_metric_loss and figures["change_low_score"] < -allowed:
        return Finding(
            "inconclusive",
            f"{text}: the interval straddles the allowed loss of {allowed:.2g}; "
            "give the metric more samples",
        )
    return Finding("passed", text, finding.details)


def _described(figures: Mapping[str, float]) -> str:
    samples, eager = figures["samples"], figures["eager_score"]
    worse, better = figures["worse_samples"], figures["better_samples"]
    if not worse + better:
        return f"metric {eager:.5g}, equal on each of {counted(samples, 'sample')}"
    low, high = figures["change_low_score"], figures["change_high_score"]
    on = counted(samples, "sample")
    exact = "" if "noise_score" in figures else ", no reference"
    return (
        f"metric {figures['compiled_score']:.5g}, eager {eager:.5g}: change "
        f"{figures['change_score']:+.2g} [{low:+.2g}, {high:+.2g}] on {on}, "
        f"{worse:.0f} worse and {better:.0f} better{exact}"
    )


@pytest.mark.aspect("metric")
def test_the_metric_is_no_worse_in_compiled_code(judge: Judge) -> None:
    judge(rule)
