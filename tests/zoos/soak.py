"""As many small models as ``SOAK_MODELS`` says: each has one case, and a child of its own."""

import os

import torch
from torch import nn

from compilegate import Example, model


def _enter(name):
    @model(name, family="soak", settings=("infer-f32-default-static",))
    def build():
        return Example(
            nn.Sequential(nn.Linear(8, 8), nn.Tanh()), inputs=lambda: (torch.randn(5, 8),)
        )


for _number in range(int(os.environ.get("SOAK_MODELS", "8"))):
    _enter(f"soak{_number:04}")
