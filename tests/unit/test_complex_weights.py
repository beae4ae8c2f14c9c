"""Complex parameters, buffers and outputs keep their imaginary parts."""

import pytest
import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate.judging.budget import Budget
from compilegate.judging.judge import judge
from compilegate.suites import test_forward, test_gradients
from tests.unit.observed import Linear, observation
from tests.unit.probed import WANTS, answering_otherwise, probed, verdict_of
from tests.unit.test_signal import figures


class Rotated(nn.Module):
    """Turns pairs of numbers, as rotary embeddings do; compiled code is wrong by ``error``."""

    error = 0.0

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("turns", torch.polar(torch.ones(2), torch.tensor([0.5, 2.0])))
        self.scale = nn.Parameter(torch.polar(torch.ones(2), torch.tensor([1.0, -1.0])))

    def forward(self, x):
        pairs = torch.view_as_complex(self.linear(x).unflatten(-1, (2, 2)))
        turned = torch.view_as_real(pairs * self.turns * self.scale).flatten(-2)
        return turned * (1 + self.error * is_compiling())


class Wrong(Rotated):
    error = 0.001


@pytest.mark.parametrize(("module", "outcome"), [(Rotated, "passed"), (Wrong, "failed")])
@pytest.mark.parametrize("suite", [test_forward, test_gradients])
def test_an_error_next_to_complex_weights_fails_and_its_twin_passes(module, outcome, suite):
    aspect = suite.__name__.removeprefix("suites.test_")
    seen = observation(module, "train", signal=False)
    found = judge(seen, Budget(), aspect, suite.rule, ("capture", "vary")).verdict
    assert found.outcome == outcome, (found.summary, found.details)


def turned():
    """Return a model whose output is complex."""
    return Linear(lambda x, y: torch.complex(y, x.sin()))


@pytest.mark.parametrize(("wrong", "outcome"), [(range(9, 12), "failed"), ((), "passed")])
def test_a_complex_output_that_is_wrong_in_some_repetitions_alone_shows(wrong, outcome):
    count = iter(range(10**6))
    off = answering_otherwise(lambda y, given: y * 1.01 if next(count) in wrong else y)
    found = verdict_of(probed(turned, backend=off, wants=WANTS[:3]))
    assert found.outcome == outcome, found.details
    assert outcome == "passed" or "after 8 more calls: output: value differs" in found.summary


@pytest.mark.parametrize(
    ("change", "outcome"), [(torch.nan_to_num, "failed"), (torch.clone, "passed")]
)
def test_a_complex_output_that_loses_nan_shows(change, outcome):
    off = answering_otherwise(lambda y, given: change(y))
    seen = probed(turned, backend=off, wants=WANTS[:3])
    assert not any("disagree" in line for line in seen.unprobed)
    found = verdict_of(seen)
    assert found.outcome == outcome, found.details
    assert outcome == "passed" or "NaN in the first row: output: nonfinite" in found.summary


def test_an_imaginary_gradient_counts_as_one():
    class Imaginary(nn.Module):
        def __init__(self):
            super().__init__()
            self.turn = nn.Parameter(torch.tensor([1.0 + 1.0j]))

        def forward(self, x):
            return (x * self.turn).imag

    assert figures(Imaginary, {}).gradients["turn"] > 0.1
