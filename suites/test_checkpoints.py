"""A compiled module's weights can be saved, loaded, copied and moved like eager's.

Names, values and answers must equal eager's, and new weights in the same parameters must need no
compilation. https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each step gives eager's names, values and answers, and compiles no more than it needs."""
    return judge_steps(observation, "checkpoints")


@pytest.mark.aspect("checkpoints")
def test_checkpoints_are_interchangeable_with_eager(judge: Judge) -> None:
    judge(rule)
