"""The practice ``regional``: which blocks are alike, and how its costs are judged."""

import pytest
import torch
from torch import nn

from compilegate.judging.budget import Budget
from compilegate.observe.practices.block_kinds import kinds
from compilegate.records.practice import Practice, Step
from compilegate.suites.test_regional import rule
from tests.unit.making import make_checked, make_error, make_observation
from tests.unit.rules.common import assert_proposal_helps

STEP = Step(name="compile() of each block", outputs=make_checked(make_error("output")))
FIGURES = {
    "blocks": 3.0,
    "distinct_blocks": 1.0,
    "regional_compile_s": 2.0,
    "whole_compile_s": 5.0,
    "compile_busy_share": 0.0,
    "throughput_ratio": 0.97,
    "throughput_low_ratio": 0.95,
    "throughput_high_ratio": 0.99,
    "call_busy_share": 0.0,
}


def practised(**figures):
    practice = Practice(steps=(STEP,), graphs=1, figures=FIGURES | figures)
    return make_observation(practices={"regional": practice}, wants=("capture", "regional"))


def test_costs_are_shown_and_not_judged_without_a_budget():
    finding = rule(practised(throughput_low_ratio=0.1, throughput_high_ratio=0.2), Budget())
    assert finding.outcome == "passed"
    assert "3 blocks, 1 distinct; ready 2.50× as fast as the whole model" in finding.summary


@pytest.mark.parametrize(
    ("budget", "figures", "outcome"),
    [
        (Budget(min_regional_warmup=2.0), {}, "passed"),
        (Budget(min_regional_warmup=3.0), {}, "failed"),
        (Budget(min_regional_warmup=3.0), {"compile_busy_share": 0.5}, "inconclusive"),
        (Budget(min_regional_warmup=3.0), {"regional_compile_s": 0.0}, "inconclusive"),
        (Budget(min_regional_throughput=0.9), {}, "passed"),
        (Budget(min_regional_throughput=0.98), {}, "inconclusive"),
        (Budget(min_regional_throughput=1.0), {}, "failed"),
        (Budget(min_regional_throughput=1.0), {"call_busy_share": 0.5}, "inconclusive"),
        (Budget(min_regional_warmup=3.0, min_regional_throughput=0.98), {}, "failed"),
    ],
)
def test_a_budget_judges_the_costs(budget, figures, outcome):
    assert rule(practised(**figures), budget).outcome == outcome


@pytest.mark.parametrize("key", ["min_regional_warmup", "min_regional_throughput"])
def test_the_proposed_budget_passes(key):
    assert_proposal_helps(rule, practised(), Budget(**{key: 4.0}))


class Block(nn.Module):
    def __init__(self, number, width=4, rate=0.0):
        super().__init__()
        self.number, self.rate = number, rate
        self.linear = nn.Linear(4, width)

    def forward(self, x):
        return self.linear(x)[..., :4]


def kinds_of(*blocks):
    net = nn.Sequential(*blocks)
    with torch.no_grad():
        return kinds(blocks, lambda: net(torch.zeros(2, 4)))


def test_blocks_that_differ_only_in_their_number_are_alike():
    assert kinds_of(Block(0), Block(1), Block(2)) == (0, 0, 0)


@pytest.mark.parametrize("other", [Block(2, width=8), Block(2, rate=0.1), nn.Linear(4, 4)])
def test_another_shape_or_attribute_or_class_is_another_kind(other):
    assert kinds_of(Block(0), Block(1), other) == (0, 0, 2)


def test_blocks_that_receive_other_shapes_are_of_another_kind():
    blocks = [Block(0, width=4), Block(1, width=4)]

    def call():
        blocks[0](torch.zeros(2, 4))
        blocks[1](torch.zeros(3, 4))

    assert kinds(blocks, call) == (0, 1)
