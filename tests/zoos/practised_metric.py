"""Models with a metric: a sound one, and twins whose compiled code is off at a threshold.

``torch.compiler.is_compiling()`` guards a fault, as a fault of the compiler would be.
"""

import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate import Call, Example, model

FEATURES, CLEAR, NEAR = 16, 900, 100
#: A score this far from the threshold: float32 holds it exactly, and rounding of others exceeds it.
TINY = 2.0**-22


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-2, 1, FEATURES), requires_grad=False)

    def forward(self, x):
        return self.off(x @ self.weight)

    def off(self, score):
        return score


class Lower(Scorer):
    """Compiled scores are lower by a few rounding errors, which the bounds of a call allow."""

    def off(self, score):
        return score - 2 * TINY if is_compiling() else score


def samples(near):
    """Return inputs and what is right: a tenth of the scores are just above the threshold of zero.

    Args:
        near: What is right for the samples near the threshold, by their number.
    """
    clear = torch.randn(CLEAR, FEATURES)
    tied = torch.zeros(NEAR, FEATURES)
    tied[:, -1] = TINY
    right = clear.double() @ torch.linspace(-2, 1, FEATURES).double() > 0
    return torch.cat([clear, tied]), torch.cat([right, torch.tensor([*map(near, range(NEAR))])])


def measured(name, scorer, near=lambda number: True, score=None):
    @model(name, family="practised", practices=("metric",))
    def build():
        data, right = samples(near)

        def accuracy(run):
            for inputs, expected in zip(data.split(250), right.split(250), strict=True):
                yield from ((run(inputs) > 0) == expected).tolist()

        return Example(
            scorer(),
            # With an action, there are no probing calls: small inputs would show it.
            calls=[Call((torch.randn(6, FEATURES),), before=lambda: None)],
            signal=False,
            metric=score or accuracy,
        )


def misspelt(run):
    return run(torch.randn(4, FEATURES)).accuracy()


def mean_square(run):
    """Return a score that every rounding error changes."""
    return -run(torch.randn(500, FEATURES)).square()


def infinite(run):
    return run(torch.randn(4, FEATURES)) / 0


measured("sound_metric", Scorer)
measured("off_at_the_threshold", Lower)
measured("off_where_chance_decides", Lower, near=lambda number: number % 2 == 0)
measured("rounds_a_score", Lower, score=mean_square)
measured("metric_that_raises", Scorer, score=misspelt)
measured("infinite_metric", Scorer, score=infinite)
