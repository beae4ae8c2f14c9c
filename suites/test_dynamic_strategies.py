"""Each way to treat a size that varies gives eager's answers, and compiles what it says.

Padding to buckets compiles one graph a bucket, a marked dimension one graph for all sizes. Beyond
the recompile limit code runs in eager, and where compiling again is forbidden, it is refused.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_dynamic_shapes.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation
from compilegate.records.wording import counted


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each step is right, compiles no more than it needs, and refuses what it must."""
    finding = judge_steps(observation, "dynamic_strategies")
    if finding.outcome != "passed":
        return finding
    figures = observation.practices["dynamic_strategies"].figures
    return replace(finding, summary=f"{finding.summary}{_described(figures)}")


def _described(figures: Mapping[str, float]) -> str:
    text = f"; {counted(figures['buckets'], 'bucket')}" if "buckets" in figures else ""
    if "further_bucket_compile_s" in figures:
        text += f", a further one compiles in {figures['further_bucket_compile_s']:.1f} s"
    return text


@pytest.mark.aspect("dynamic_strategies")
def test_each_strategy_for_sizes_that_vary_holds(judge: Judge) -> None:
    judge(rule)
