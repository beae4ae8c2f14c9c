"""Probing calls whose loss has another form: of a part of the output, of equal rows, infinite."""

import pytest
import torch
from torch import nn

from compilegate.observe.model import losses
from compilegate.suites import test_gradients
from tests.unit.probed import probed, verdict_of

SECOND, LAST = "a loss of every second row of the first output", "a loss of the last output alone"
EQUAL, INFINITE = "a loss with one gradient for all rows", "an infinite loss"
WANTS = ("capture", "vary", "reuse")


def right(g, h, x):
    return g * x.cos() - h * x.sin()


def wrong_without_the_second(g, h, x):
    both = right(g, h, x)
    return torch.where((h == 0).all(), 2 * both, both)


def wrong_without_the_first(g, h, x):
    both = right(g, h, x)
    return torch.where((g == 0).all(), 2 * both, both)


def wrong_in_masked_rows(g, h, x):
    both = right(g, h, x)
    return torch.where(g == 0, torch.ones_like(both), both)


def wrong_for_equal_rows(g, h, x):
    both = right(g, h, x)
    return torch.where((g == g[:1]).all(), 2 * both, both)


def without_infinities(g, h, x):
    return right(*(one.nan_to_num(0.0, 0.0, 0.0) for one in (g, h)), x)


FAULTS = {
    wrong_without_the_second: SECOND,
    wrong_in_masked_rows: SECOND,
    wrong_without_the_first: LAST,
    wrong_for_equal_rows: EQUAL,
    without_infinities: INFINITE,
}


def test_equal_rows_add_up_to_no_more_than_others():
    """65,536 scaled rows overflow in float16 if each is as large as a random one."""
    cotangent = torch.randn(65536, 8)
    (equal,) = losses.of_equal_rows([cotangent])
    assert bool((equal == equal[0]).all())
    assert equal.stride(0) == 0
    assert float(equal.sum(0).norm()) < 3 * float(cotangent.sum(0).norm())


def with_backward(faulty, head):
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
            return right(g, h, x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.head = nn.Linear(4, 4), head()

        def forward(self, x):
            first, second = Waves.apply(self.linear(x))
            return first, self.head(second)

    return Net


@pytest.mark.parametrize("faulty", [*FAULTS, None])
def test_a_backward_that_is_wrong_for_a_form_of_the_loss_shows(faulty):
    head = nn.Identity if faulty is without_infinities else lambda: nn.Linear(4, 4)
    seen = probed(with_backward(faulty, head), "train", "aot_eager", WANTS, signal=True)
    assert {SECOND, LAST, EQUAL, INFINITE} <= {one.probe for one in seen.probes}
    found = verdict_of(seen, test_gradients)
    assert found.outcome == ("failed" if faulty else "passed"), found.details
    if faulty:
        assert any(FAULTS[faulty] in line for line in found.details)
        assert all("probing call" in line for line in found.details)


def test_gradients_that_a_norm_cancels_are_not_compared():
    """The gradient of a sum over the batch is zero before a batch norm, but for rounding."""
    seen = probed(
        lambda: nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.BatchNorm1d(4)),
        "train",
        "aot_eager_decomp_partition",
        WANTS,
    )
    assert EQUAL in [one.probe for one in seen.probes]
    found = verdict_of(seen, test_gradients)
    assert found.outcome == "passed", found.details


def test_a_single_number_has_no_part():
    seen = probed(
        lambda: nn.Sequential(nn.Linear(4, 4), nn.Flatten(0), nn.Linear(32, 1), nn.Flatten(0)),
        "train",
        wants=("capture", "reuse"),
        batch=(8,),
    )
    assert seen.status == "completed", seen.failure
    assert {f"{name}: for this output, it is no other loss" for name in (SECOND, LAST, EQUAL)} <= {
        *seen.unprobed
    }


def test_an_output_without_a_gradient_has_no_loss():
    class Detached(nn.Linear):
        def forward(self, x):
            return super().forward(x).detach()

    seen = probed(lambda: Detached(4, 4), "train", wants=("capture", "reuse"))
    assert seen.status == "completed", seen.failure
    names = (SECOND, LAST, EQUAL, INFINITE)
    assert {f"{name}: for this output, it is no other loss" for name in names} <= {*seen.unprobed}
