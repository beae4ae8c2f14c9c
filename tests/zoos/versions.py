"""Models that behave differently in two environments, as if PyTorch had changed.

The interpreter of the baseline sets ``COMPILEGATE_SIDE``. Nothing else differs.
"""

import ctypes
import os
import time

import torch
from torch import nn
from torch._dynamo.output_graph import OutputGraph

from compilegate import Example, model

BASELINE = os.environ.get("COMPILEGATE_SIDE") == "baseline"


class Works(nn.Module):
    """Four matrix products, then more of them that do not change the result.

    Args:
        more_when_compiled: How many more the compiled code runs.
        more_in_eager: How many more the eager call runs.
        copies: How many copies of the input one product takes whose result is summed at once.
    """

    def __init__(self, more_when_compiled=0, more_in_eager=0, copies=1):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 128) / 12)
        self.more = {True: more_when_compiled, False: more_in_eager}
        self.copies = copies

    def forward(self, x):
        for _ in range(4):
            x = torch.tanh(x @ self.weight)
        wasted = x.detach()
        for _ in range(self.more[torch.compiler.is_compiling()]):
            wasted = torch.tanh(wasted @ self.weight)
        return x + 0.0 * wasted + 0.0 * (x.repeat(self.copies, 1) @ self.weight).sum()


def working(**more):
    return Example(Works(**({} if BASELINE else more)), inputs=lambda: (torch.randn(512, 128),))


@model("steady")
def steady():
    return working()


@model("slower")
def slower():
    return working(more_when_compiled=12)


@model("slower_both")
def slower_both():
    return working(more_when_compiled=12, more_in_eager=12)


@model("larger")
def larger():
    return working(copies=20)


@model("slower_eager")
def slower_eager():
    return working(more_in_eager=12)


def fuse_nodes():
    """Do nothing, as often as the compiler calls it."""


compile_graph = OutputGraph.compile_and_call_fx_graph


def compile_more(*args, **kwargs):
    """Compile a graph, and call a function nine thousand times before."""
    for _ in range(9_000):
        fuse_nodes()
    return compile_graph(*args, **kwargs)


@model("compiles_more")
def compiles_more():
    """Return a layer whose compilation calls 5% more functions under the candidate."""
    if not BASELINE:
        OutputGraph.compile_and_call_fx_graph = compile_more
    return working()


class Acts(nn.Module):
    """A layer whose eager calls run an action, under the baseline only."""

    def __init__(self, action):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.action = action

    def forward(self, x):
        if BASELINE and not torch.compiler.is_compiling():
            self.action()
        return self.linear(x)


def acting(action):
    return Example(Acts(action), inputs=lambda: (torch.randn(2, 4),))


@model("crashed_before")
def crashed_before():
    return acting(lambda: ctypes.string_at(0))


@model("hung_before")
def hung_before():
    return acting(lambda: time.sleep(3600))


class Fixed(nn.Module):
    """Compiled code is 10% off under the baseline. Both versions do the same work."""

    def __init__(self):
        super().__init__()
        self.factor = {True: 1.1 if BASELINE else 1.0, False: 1.0}

    def forward(self, x):
        return x * self.factor[torch.compiler.is_compiling()]


@model("fixed")
def fixed():
    return Example(Fixed(), inputs=lambda: (torch.randn(8, 8),))


@model("lacked_before", requires="tomllib" if not BASELINE else "no_such_package")
def lacked_before():
    return Example(Fixed(), inputs=lambda: (torch.randn(8, 8),))
