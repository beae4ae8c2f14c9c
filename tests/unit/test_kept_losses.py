"""Losses that a module keeps in an attribute: the backward starts from them, too."""

import pytest
import torch
from torch import nn

from compilegate.observe.model.kept_losses import histories, made_by_call
from compilegate.suites import test_gradients
from tests.unit.observed import verdict


def half_of(weight):
    return 0.5 * weight + 0.5 * weight.detach()


def keeping(keep):
    """Return a module that gives its weight to an action, which may keep what it makes of it."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.aux_loss = None
            self.losses = []

        def forward(self, x):
            keep(self, self.linear.weight)
            return self.linear(x)

    return Net


def in_attribute(net, weight):
    net.aux_loss = weight.square().mean()


def in_list(net, weight):
    net.losses = [weight.square().mean(), weight.sin().sum()]


def detached(net, weight):
    net.aux_loss = weight.detach().square().mean()


def summed_for_ever(net, weight):
    before = 0.0 if net.aux_loss is None else net.aux_loss
    net.aux_loss = before + weight.square().mean()


def if_compiled(keep):
    """Return the action with a weight of which half is detached in compiled code."""

    def kept(net, weight):
        keep(net, half_of(weight) if torch.compiler.is_compiling() else weight)

    return kept


@pytest.mark.parametrize("keep", [in_attribute, in_list])
def test_a_wrong_gradient_of_a_kept_loss_shows(keep):
    found = verdict(keeping(if_compiled(keep)), "train", "aot_eager", test_gradients)
    assert found.outcome == "failed"
    assert "gradient linear.weight (float32): root mean square error" in found.summary


@pytest.mark.parametrize("keep", [in_attribute, in_list, detached])
def test_a_module_that_keeps_a_loss_passes(keep):
    found = verdict(keeping(keep), "train", "aot_eager", test_gradients)
    assert found.outcome == "passed", found.details


def test_the_history_of_an_earlier_call_is_left_alone():
    net = keeping(summed_for_ever)()

    def state():
        return {"attribute aux_loss": net.aux_loss}

    before = histories(state())
    net(torch.randn(2, 4))
    first = made_by_call(before, state())
    assert [*first] == ["attribute aux_loss"]
    before = histories(state())
    net(torch.randn(2, 4))
    assert made_by_call(before, state()) == {}
