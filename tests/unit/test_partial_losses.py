"""Probing calls whose backward starts from a part of the output."""

import pytest
import torch
from torch import nn

from compilegate.suites import test_gradients
from tests.unit.test_probing import probed, verdict_of

PROBE = "a loss of every second row of the first output"


def wrong_without_the_second(g, h, x):
    both = g * x.cos() - h * x.sin()
    return torch.where((h == 0).all(), 2 * both, both)


def wrong_in_masked_rows(g, h, x):
    both = g * x.cos() - h * x.sin()
    return torch.where(g == 0, torch.ones_like(both), both)


def with_backward(faulty):
    """Return a module of two outputs, and of a head that the first output does not need."""

    class Waves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx, g, h):
            (x,) = ctx.saved_tensors
            if faulty is not None and torch.compiler.is_compiling():
                return faulty(g, h, x)
            return g * x.cos() - h * x.sin()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.head = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            first, second = Waves.apply(self.linear(x))
            return first, self.head(second)

    return Net


@pytest.mark.parametrize("faulty", [wrong_without_the_second, wrong_in_masked_rows, None])
def test_a_backward_that_is_wrong_for_a_part_of_the_output_shows(faulty):
    seen = probed(
        with_backward(faulty), "train", "aot_eager", ("capture", "vary", "reuse"), signal=True
    )
    assert PROBE in [one.probe for one in seen.probes]
    found = verdict_of(seen, test_gradients)
    assert found.outcome == ("failed" if faulty else "passed"), found.details
    assert all(PROBE in line for line in found.details if faulty)


def test_a_single_number_has_no_part():
    seen = probed(
        lambda: nn.Sequential(nn.Linear(4, 4), nn.Flatten(0), nn.Linear(32, 1), nn.Flatten(0)),
        "train",
        wants=("capture", "reuse"),
        batch=(8,),
    )
    assert seen.status == "completed", seen.failure
    assert f"{PROBE}: the output that requires a gradient is a single row" in seen.unprobed
