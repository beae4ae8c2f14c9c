"""Models that several ranks train: a healthy one, and twins with faults that only ranks show.

``torch.compiler.is_compiling()`` guards each fault, as a fault of the compiler would be.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.compiler import is_compiling
from torch.distributed.fsdp import FSDPModule

from compilegate import Example, model

#: The rank of this process; 0 where there are no ranks.
RANK = int(os.environ.get("RANK", "0"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.linear(self.norm(x)).relu()


class Net(nn.Module):
    block_class = Block

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(self.block_class() for _ in range(2))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def practised(name):
    """Enter a model that is observed for the practice."""
    return model(
        name,
        family="practised",
        vary={"batch": (12, 5, 7)},
        blocks="blocks",
        practices=("distributed",),
    )


def example(net):
    return Example(net, inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}})


@practised("sound_ranks")
def sound_ranks():
    return example(Net())


@practised("faulty_ranks")
def faulty_ranks():
    """Rank 1 breaks the graph and computes another gradient, and a sharded block loses one."""

    class Faulty(Block):
        def forward(self, x):
            if is_compiling() and isinstance(self, FSDPModule):
                return x + self.linear(self.norm(x)).relu().detach()
            return super().forward(x)

    class Net1(Net):
        block_class = Faulty

        def forward(self, x):
            if RANK == 1 and is_compiling() and not isinstance(self, FSDPModule):
                x = 1.01 * x
                torch._dynamo.graph_break()
            return super().forward(x)

    return example(Net1())


@practised("greedy_rank")
def greedy_rank():
    """Rank 1 asks for more memory than there is."""

    class Greedy(Net):
        def forward(self, x):
            if RANK == 1 and is_compiling():
                x = x + allocate(2**60)
            return super().forward(x)

    return example(Greedy())


@torch.compiler.disable
def allocate(size):
    return torch.empty(size)[0]


@torch.compiler.disable
def wait_for_rank_0():
    dist.recv(torch.zeros(1), src=0)


@practised("hanging_rank")
def hanging_rank():
    """Rank 1 waits for what rank 0 does not send, and rank 0 waits for gradients of rank 1."""

    class Hangs(Net):
        def forward(self, x):
            if RANK == 1 and is_compiling():
                wait_for_rank_0()
            return super().forward(x)

    return example(Hangs())
