"""A model with ``torch.cond`` runs under compilegate's dispatch modes as it does without them."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.suites import test_forward, test_gradients
from tests.unit.observed import verdict


class Branches(nn.Module):
    """Chooses one of two layers, which the branches close over; compiled, scales the gradients."""

    def __init__(self, scale):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)
        self.scale = scale

    def forward(self, x):
        y = torch.cond(
            x.sum() > 0, lambda x: self.one(x).sin(), lambda x: self.other(x).cos(), (x,)
        )
        scale = self.scale if is_compiling() else 1.0
        return y * scale + y.detach() * (1 - scale)


@pytest.mark.parametrize("suite", [test_forward, test_gradients])
def test_branches_keep_the_gradients_of_what_they_close_over(suite):
    found = verdict(lambda: Branches(1.0), "train", "aot_eager", suite)
    assert found.outcome == "passed", found


def test_a_wrong_gradient_of_a_branch_is_found():
    found = verdict(lambda: Branches(1.01), "train", "aot_eager", test_gradients)
    assert found.outcome == "failed", found
    assert "gradient one.weight" in "\n".join((found.summary, *found.details))
