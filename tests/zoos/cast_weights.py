"""Models that are cast to other number formats: sound ones, and a twin with a fault in one format.

``torch.compiler.is_compiling()`` guards the fault, as a fault of the compiler would be.
"""

import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate import Example, model


class Norm(nn.Module):
    """A root mean square norm, which computes in float32 as transformers' norms do."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(64) + 0.5)

    def forward(self, x):
        square = x.float().square().mean(-1, keepdim=True)
        return self.gain * (x.float() * torch.rsqrt(self.rounded(square) + 1e-6)).to(x.dtype)

    def rounded(self, square):
        return square


class LosesPrecision(Norm):
    """Compiled code rounds the statistics of the norm, if the weights are in bfloat16."""

    def rounded(self, square):
        is_wrong = is_compiling() and self.gain.dtype == torch.bfloat16
        return (square * 4).round() / 4 if is_wrong else square


class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def cast(name, norm):
    @model(
        name,
        family="cast",
        weights=("bf16_weights", "f16_weights", "int8_weights"),
    )
    def build():
        return Example(
            nn.Sequential(Block(norm), nn.Linear(64, 10)), inputs=lambda: (torch.randn(6, 64),)
        )


cast("sound_when_cast", Norm)
cast("loses_precision_when_cast", LosesPrecision)
