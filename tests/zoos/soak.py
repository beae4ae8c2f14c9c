"""As many small models as ``SOAK_MODELS`` says, each with a child of its own.

``SOAK_FIRST`` is the number of the first one, and ``SOAK_CASES`` the number of cases of each.
"""

import os

import torch
from torch import nn

from compilegate import Example, model

_SETTINGS = (
    *("infer-f32-default-static", "infer-f32-default-auto", "infer-f32-default-dynamic"),
    *("infer-bf16-default-static", "infer-bf16-default-auto", "infer-bf16-default-dynamic"),
    *("train-f32-default-static", "train-f32-default-auto", "train-f32-default-dynamic"),
    "train-bf16-default-static",
)


def _enter(name):
    @model(name, family="soak", settings=_SETTINGS[: int(os.environ.get("SOAK_CASES", "1"))])
    def build():
        return Example(
            nn.Sequential(nn.Linear(8, 8), nn.Tanh()), inputs=lambda: (torch.randn(5, 8),)
        )


_FIRST = int(os.environ.get("SOAK_FIRST", "0"))
for _number in range(_FIRST, _FIRST + int(os.environ.get("SOAK_MODELS", "8"))):
    _enter(f"soak{_number:04}")
