"""Two stacks of blocks: one is sound, the other runs compiled code at its first size alone."""

import torch
from torch import nn

from compilegate import Example, model


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.linear(x).relu()


class LeftToEager(Block):
    """As where PyTorch finds no code for a size, and runs the block's own."""

    first = None

    def __call__(self, x):
        self.first = self.first or len(x)
        return super().__call__(x) if len(x) == self.first else self._call_impl(x)


class Stack(nn.Module):
    """The blocks never see the length of the second input."""

    def __init__(self, block):
        super().__init__()
        self.blocks = nn.Sequential(block(), block())

    def forward(self, x, weights):
        return self.blocks(x) * weights.mean()


def stack(block):
    return Example(
        Stack(block), inputs=lambda batch, length: (torch.randn(batch, 8), torch.rand(length))
    )


@model("sound_blocks", vary={"batch": (3, 5, 7), "length": (4, 6, 9)}, blocks="blocks")
def sound_blocks():
    return stack(Block)


@model("blocks_left_to_eager", vary={"batch": (3, 5, 7), "length": (4, 6, 9)}, blocks="blocks")
def blocks_left_to_eager():
    return stack(LeftToEager)
