"""Eager itself is as exact as under the PyTorch in use, and raises nothing new.

Both runs contain eager's distance from the reference. If eager got worse, the compiler is not
the cause, but production is wrong nevertheless.
"""

from __future__ import annotations

import pytest

from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.records.observation import Observation
from compilegate.runs.archive import CaseRecord
from compilegate.runs.slim import slim_observation
from compilegate.upgrade.fact_changes import eager_regressions


def rule(before: CaseRecord, observation: Observation) -> Finding:
    """Eager is no further from the reference than before, and raises in no other call."""
    if before.observation is None:
        return Finding("skipped", "the baseline did not observe this case")
    worse = eager_regressions(before.observation, slim_observation(observation))
    if worse is None:
        return Finding("skipped", "eager cannot be compared")
    if worse:
        return Finding.failure([change.text for change in worse])
    return Finding("passed", "eager is as exact as under the PyTorch in use")


@pytest.mark.aspect("eager")
def test_eager_is_as_exact_as_before(judge: Judge, before: CaseRecord) -> None:
    judge(lambda observation, budget: rule(before, observation))
