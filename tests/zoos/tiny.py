"""Healthy models that compile quickly, written as a user would write them."""

import torch
from torch import nn

from compilegate import Example, model


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.norm(self.first(x)).relu())


@model("tiny", family="tiny", vary={"batch": (6, 5, 7)})
def tiny():
    return Example(Tiny(), inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}})


@model("other", family="tiny")
def other():
    return Example(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), inputs=(torch.randn(3, 8),))
