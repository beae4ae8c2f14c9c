"""Training in a loop with a compiled model ends where eager ends, as far as rounding lets it.

Losses and weights are compared after three and after twenty steps, with AdamW and with SGD, and
nothing is compiled again after the first steps. https://docs.pytorch.org/docs/stable/optim.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """Each loop has eager's losses and weights, and compiles no more than it needs."""
    return judge_steps(observation, "training_loop")


@pytest.mark.aspect("training_loop")
def test_training_ends_where_eager_ends(judge: Judge) -> None:
    judge(rule)
