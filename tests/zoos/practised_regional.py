"""Models with repeated blocks: a healthy one, twins with a fault that only the practice shows, one
without blocks.

``torch.compiler.is_compiling()`` guards a fault, as a fault of the compiler would be.
"""

import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate import Example, model


class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.inner = nn.Linear(8, 16)
        self.outer = nn.Linear(16, 8)

    def forward(self, x):
        return x + self.outer(self.inner(x).relu())


class Net(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.blocks = nn.Sequential(*map(block, range(3)))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.blocks(x))


def practised(name, blocks="blocks"):
    """Enter a model that is observed for the practice."""
    return model(
        name,
        family="practised",
        vary={"batch": (6, 5, 7)},
        blocks=blocks,
        practices=("regional",),
    )


def example(block):
    inputs = {0: {0: "batch"}}
    return Example(Net(block), inputs=lambda batch: (torch.randn(batch, 8),), dims=inputs)


@practised("sound_blocks")
def sound_blocks():
    return example(Block)


@practised("without_blocks", blocks=None)
def without_blocks():
    return example(Block)


@practised("blocks_with_a_guard")
def blocks_with_a_guard():
    """Compiled code depends on the number of the block, so no block shares another's."""

    class Guarded(Block):
        def forward(self, x):
            return super().forward(x) if self.number >= 0 else x

    return example(Guarded)


@practised("wrong_when_compiled_alone")
def wrong_when_compiled_alone():
    """A block that is compiled by itself is wrong; inside the whole model it is right."""

    class Alone(Block):
        def forward(self, x):
            if is_compiling() and self._compiled_call_impl is not None:
                return super().forward(x) * 1.01
            return super().forward(x)

    return example(Alone)
