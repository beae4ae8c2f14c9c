"""Models of which one uses a made-up distribution; tests install it in two versions."""

import torch
from torch import nn

from compilegate import Example, model


class Scaled(nn.Module):
    """A layer whose output a distribution scales, or the model itself.

    Args:
        by_gadget: Whether the distribution ``gadget`` does.
    """

    def __init__(self, by_gadget):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.by_gadget = by_gadget

    def forward(self, x):
        x = self.layer(x)
        if not self.by_gadget:
            return torch.tanh(x * 2.0)
        import gadget

        return torch.tanh(gadget.scale(x))


@model("uses_gadget")
def uses_gadget():
    return Example(Scaled(by_gadget=True), inputs=lambda: (torch.randn(4, 8),))


@model("uses_nothing")
def uses_nothing():
    return Example(Scaled(by_gadget=False), inputs=lambda: (torch.randn(4, 8),))
