"""Models that are exported: a healthy one, and a twin whose program is wrong in three ways.

``torch.compiler.is_exporting()`` guards each fault, as a fault of export would be.
"""

import torch
from torch import nn
from torch.compiler import is_exporting

from compilegate import Example, model


class Net(nn.Module):
    """It has a buffer that it writes to, a plain argument, and a nested output."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(4))

    def forward(self, x, doubled, *, scale):
        self.count()
        y = self.project(x) * scale
        return {"y": 2 * y if doubled else y, "rest": (self.mean(x), self.calls.sin())}

    def count(self):
        self.calls.add_(1)

    def project(self, x):
        return self.linear(x)

    def mean(self, x):
        return x.sum(0) / x.shape[0]


class Faulty(Net):
    """As a program it loses its bias, divides by the first size, and never counts its calls."""

    def count(self):
        if not is_exporting():
            super().count()

    def project(self, x):
        return super().project(x) - (self.linear.bias if is_exporting() else 0)

    def mean(self, x):
        return x.sum(0) / 6 if is_exporting() else super().mean(x)


def exported(name):
    """Enter a model that is exported."""
    return model(name, family="practised", vary={"batch": (6, 5, 7)}, practices=("export",))


def example(net):
    return Example(
        net,
        inputs=lambda batch: (torch.randn(batch, 8), True),
        kwargs=lambda batch: {"scale": torch.rand(batch, 1) + 0.5},
        dims={0: {0: "batch"}, "scale": {0: "batch"}},
    )


@exported("sound_export")
def sound_export():
    return example(Net())


@exported("wrong_when_exported")
def wrong_when_exported():
    return example(Faulty())
