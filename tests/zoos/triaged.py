"""Models for a broken PyTorch: one has a division in a submodule, one an error function."""

import torch
from torch import nn

from compilegate import Example, model

ONE = ("infer-f32-default-static",)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return torch.sigmoid(self.inner(x)) * (x / (1 + x.abs()))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.gate, self.after = nn.Linear(8, 8), Gate(), nn.LayerNorm(8)

    def forward(self, x):
        return self.after(self.gate(self.before(x).relu()))


class ErrorFunction(nn.Module):
    def forward(self, x):
        return torch.special.erfcx(x)


def example(*modules):
    net = nn.Sequential(nn.Linear(8, 8), *modules, nn.Linear(8, 3))
    return Example(net, inputs=lambda: (torch.randn(5, 8),))


@model("divides", settings=ONE)
def divides():
    return example(Block())


@model("aborts", settings=ONE)
def aborts():
    return example(nn.Tanh(), ErrorFunction())


@model("healthy", settings=ONE)
def healthy():
    return example(nn.Tanh(), nn.LayerNorm(8))


class Detour(nn.Module):
    """Compiled code multiplies large matrices, and does not use the product."""

    def __init__(self, detours):
        super().__init__()
        self.detours, self.large = detours, nn.Parameter(torch.randn(256, 256))

    def forward(self, x):
        if self.detours and torch.compiler.is_compiling():
            return x.tanh() + 0 * (self.large @ self.large).amax()
        return x.tanh()


@model("detours", settings=ONE)
def detours():
    return example(Detour(detours=True))


@model("direct", settings=ONE)
def direct():
    return example(Detour(detours=False))


@model("counts", settings=ONE)
def counts():
    """Each call finds a longer list, and is compiled again."""
    seen = []

    def count(x):
        seen.append(0)
        return x * len(seen)

    return Example(count, inputs=lambda: (torch.randn(4),))
