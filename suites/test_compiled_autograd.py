"""With compiled autograd, a loop has eager's losses and weights.

https://docs.pytorch.org/tutorials/intermediate/compiled_autograd_tutorial.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """The backward is captured, and trains as eager's does."""
    return judge_steps(observation, "compiled_autograd")


@pytest.mark.aspect("compiled_autograd")
def test_compiled_autograd_trains_as_eager_does(judge: Judge) -> None:
    judge(rule)
