"""Each backend, mode and option of torch.compile is right, and a stance is a way back to eager.

A backend that cannot run here says why. Under ``force_eager`` the model runs in Python, and
``default`` uses the compiled code again. ``fail_on_recompile`` raises at another size alone. The
modes are timed against each other in one process, and judged where a budget asks for it.
https://docs.pytorch.org/docs/stable/generated/torch.compiler.set_stance.html
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practice_figures import judge_ratio, measured
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation
from compilegate.records.practice import ratios_in

#: What the names of the figures begin with that are about the mode of the budget.
_JUDGED = "reduce_overhead"


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each step is right and compiles no more than it needs, and the mode is within budget."""
    finding = judge_steps(observation, "backends")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["backends"].figures
    if (wanted := budget.min_reduce_overhead_throughput) is not None:
        judged = judge_ratio(
            measured(figures, _JUDGED),
            wanted,
            busy_share=figures.get(f"{_JUDGED}_busy_share", 0.0),
            what="the mode reduce_overhead has {} the throughput of the mode default",
            key="min_reduce_overhead_throughput",
        )
        if judged.outcome != "passed":
            return judged
    return Finding("passed", f"{finding.summary}{_described(figures)}", finding.details)


def _described(figures: Mapping[str, float]) -> str:
    return "".join(
        f"; the mode {mode} has {seen.text} the throughput of default"
        for mode, seen in ratios_in(figures)
    )


@pytest.mark.aspect("backends")
def test_each_backend_mode_and_stance_is_right(judge: Judge) -> None:
    judge(rule)
