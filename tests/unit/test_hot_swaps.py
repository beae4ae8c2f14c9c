"""Hot swaps: an action that changes weights before a call is no reason to recompile."""

import pytest
import torch
from torch import nn

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_recompiles
from compilegate.zoo.example import Call
from tests.unit.observed import observation


class Adapted(nn.Module):
    """A layer with a low-rank adapter."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.down = nn.Parameter(torch.randn(2, 4))
        self.up = nn.Parameter(torch.randn(4, 2))
        self.scale = 0.5

    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.down.T @ self.up.T)


def copies(module, number):
    """Copy another adapter into the weights."""
    with torch.no_grad():
        module.up.copy_(torch.full((4, 2), 0.1 * number))


def takes_another_rank(module, number):
    module.down = nn.Parameter(torch.full((2 + number, 4), 0.1))
    module.up = nn.Parameter(torch.full((4, 2 + number), 0.1))


def copies_with_another_scale(module, number):
    copies(module, number)
    module.scale = 0.5 / number


def sets_the_scale(module, number):
    module.scale = 0.5 / number


def verdict(swap, budget=None):
    """Return the verdict on three calls, with a swap before the second and before the third."""
    x = torch.ones(3, 4)
    swaps = [None, *(lambda module, n=n: swap(module, n) for n in (1, 2))]
    calls = [Call((x,), before=before) for before in swaps]
    seen = observation(Adapted, inputs=(), calls=calls)
    budget = budget or Budget()
    return judge(seen, budget, "recompiles", test_recompiles.rule, seen.wants).verdict


@pytest.mark.parametrize(
    ("swap", "guard"),
    [(takes_another_rank, "size mismatch"), (copies_with_another_scale, "scale")],
)
def test_a_swap_that_recompiles_fails_and_the_guard_is_named(swap, guard):
    found = verdict(swap)
    assert found.outcome == "failed"
    assert found.summary.endswith(" of one code object, 0 allowed for 'static'")
    assert any(guard in line for line in found.details), found.details


@pytest.mark.parametrize("swap", [copies, sets_the_scale])
def test_copied_weights_and_changed_attributes_alone_pass(swap):
    assert verdict(swap).outcome == "passed"


def test_a_budget_allows_a_swap_that_must_recompile():
    assert verdict(takes_another_rank, Budget(recompiles=2)).outcome == "passed"
