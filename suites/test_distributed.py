"""Two processes train a compiled model together as they train it in eager, and none waits for ever.

With DistributedDataParallel and with FSDP2 (``fully_shard``), the gradients of each rank must be
eager's. Each rank must capture the same graphs, compile nothing again in the second step, and have
the same weights after a step of the optimizer.
https://docs.pytorch.org/tutorials/beginner/dist_overview.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each way to train on several ranks gives eager's gradients, and the ranks stay alike."""
    return judge_steps(observation, "distributed")


@pytest.mark.aspect("distributed")
def test_several_processes_train_a_compiled_model_as_they_train_it_in_eager(judge: Judge) -> None:
    judge(rule)
