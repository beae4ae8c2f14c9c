"""An exported model gives eager's answers in a fresh process that lacks the model's code.

The program of ``torch.export`` and the package of AOTInductor must do so at every declared size.
The old recipe with ``torch.jit`` may be refused, but what it saves must give the right numbers.
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/export.html
"""

from __future__ import annotations

import pytest

from compilegate.judging.budget import Budget
from compilegate.judging.finding import Finding
from compilegate.judging.judge import Judge
from compilegate.judging.practices import judge_steps
from compilegate.records.observation import Observation


def rule(observation: Observation, budget: Budget) -> Finding:
    """The model can be exported, and each program gives eager's answers at each size."""
    return judge_steps(observation, "export")


@pytest.mark.aspect("export")
def test_an_exported_model_gives_eager_s_answers_without_its_code(judge: Judge) -> None:
    judge(rule)
