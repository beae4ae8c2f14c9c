"""Tests of the random weights of a build."""

import pytest
import torch
from torch import nn

from compilegate.observe.model.seeding import QuickWeights, seed_everything

SEVERAL_BLOCKS = (300, 700)


def built(build, seed=0, quickly=True):
    seed_everything(seed)
    if not quickly:
        return build()
    with QuickWeights():
        return build()


@pytest.mark.parametrize("draw", [nn.init.normal_, nn.init.trunc_normal_, nn.init.xavier_uniform_])
def test_large_parameters_are_drawn_in_blocks_that_repeat(draw):
    def build():
        return draw(nn.Parameter(torch.empty(SEVERAL_BLOCKS)))

    quick, slow = built(build).detach(), built(build, quickly=False).detach()
    assert float(quick.std()) == pytest.approx(float(slow.std()), rel=0.02)
    assert abs(float(quick.mean())) < 0.02 * float(slow.std())
    rows = torch.corrcoef(quick).fill_diagonal_(0.0)
    assert float(rows.abs().max()) < 0.3  # no row repeats another
    assert len(quick.unique()) < len(slow.unique()) / 2


def test_large_parameters_depend_on_the_seed():
    def build():
        return nn.Linear(*SEVERAL_BLOCKS).weight

    assert torch.equal(built(build), built(build))
    assert not torch.equal(built(build), built(build, seed=1))


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Linear(30, 70).weight,
        lambda: torch.empty(SEVERAL_BLOCKS).normal_(),
        lambda: torch.randn(SEVERAL_BLOCKS),
        lambda: nn.Parameter(torch.empty(SEVERAL_BLOCKS)).data.normal_(0.0, 0.1),
        lambda: nn.init.orthogonal_(nn.Parameter(torch.empty(SEVERAL_BLOCKS))),
    ],
)
def test_other_parameters_are_drawn_as_without_the_mode(build):
    assert torch.equal(built(build), built(build, quickly=False))
