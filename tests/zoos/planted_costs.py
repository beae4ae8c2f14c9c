"""Models that cost more in one environment than in the other, as if PyTorch had changed.

The interpreter of the baseline sets ``COMPILEGATE_SIDE=baseline``; the candidate's models cost what
their names promise. ``COMPILEGATE_WIDTH`` sets the width of the products: 256 suits two cores, 2048
a data-center GPU. ``docs/measurements/costs.md`` has the results.
"""

import os
import time

import torch
from torch import nn

from compilegate import Example, model

CANDIDATE = os.environ.get("COMPILEGATE_SIDE") != "baseline"
WIDTH = int(os.environ.get("COMPILEGATE_WIDTH", "256"))
#: Products in a call, and the rows of one whose result is summed at once, in widths of the input.
#: Together they are 20 products, so one more is 5%.
PRODUCTS, TALL = 15, 4
LEAKED = []


@torch.library.custom_op("compilegate_planted::act", mutates_args=())
def act(x: torch.Tensor, compiled: bool, leak: bool, stall: bool, compile_s: float) -> torch.Tensor:
    """Leak a megabyte, or stall in an eighth of the time, if compiled code calls it."""
    if compiled and leak:
        LEAKED.append(torch.empty(2**18, device=x.device))
    if compiled and stall and time.monotonic() % 0.8 < 0.1:
        begun = time.monotonic()
        if x.is_cuda:
            torch.cuda._sleep(5_000_000)
        while not x.is_cuda and time.monotonic() - begun < 0.005:
            pass
    return x.clone()


@act.register_fake
def _(x, compiled, leak, stall, compile_s):
    time.sleep(compile_s)  # what traces the graph waits
    return torch.empty_like(x)


def _backward(context, gradient):
    return gradient, None, None, None, None


act.register_autograd(_backward)


class Planted(nn.Module):
    """A chain of products, with costs that are planted in the candidate alone.

    Args:
        more_compiled: Products that compiled code makes in addition.
        more_eager: Products that eager makes in addition.
        taller: By what share the largest temporary tensor is taller.
        leak: Whether each compiled call leaks a megabyte.
        stall: Whether compiled calls stall in an eighth of the time.
        compile_s: Seconds that compiling takes in addition, each time it asks for a shape.
        inexact: The share of a rounding to 1/256 that eager makes in addition. The reference, in
            double precision, does not.
    """

    def __init__(
        self,
        *,
        more_compiled=0,
        more_eager=0,
        taller=0.0,
        leak=False,
        stall=False,
        compile_s=0.0,
        inexact=0.0,
    ):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH**0.5)
        self.inputs, self.rows = divmod(int(WIDTH * TALL * (1 + taller)), WIDTH)
        self.more = {True: more_compiled, False: more_eager}
        self.plant = (leak, stall, compile_s)
        self.inexact = inexact

    def forward(self, x):
        compiled = torch.compiler.is_compiling()
        y = x
        for _ in range(PRODUCTS + self.more[compiled]):
            y = torch.tanh(y @ self.weight)
        x = torch.ops.compilegate_planted.act(x, compiled, *self.plant)
        tall = torch.cat([*[x] * self.inputs, x[: self.rows]])
        x = torch.tanh(x @ self.weight) + 0.0 * y + 0.0 * (tall @ self.weight).sum()
        if self.inexact and not compiled and x.dtype != torch.float64:
            x = x + self.inexact * (torch.round(x * 256) / 256 - x)
        return x


def planted(**costs):
    candidates = costs if CANDIDATE else {}
    return Example(Planted(**candidates), inputs=lambda: (torch.randn(WIDTH, WIDTH),))


def enter(name, **costs):
    """Enter a model in the zoo."""

    @model(name, family="planted_costs")
    def build():
        return planted(**costs)


for number in range(4):
    enter(f"healthy_{number}")
for percent in (5, 10, 20):
    enter(f"compiled_slower_{percent}", more_compiled=percent // 5)
enter("both_slower_20", more_compiled=4, more_eager=4)
enter("eager_slower_20", more_eager=4)
for percent in (10, 20, 30):
    enter(f"memory_{percent}", taller=percent / 100)
enter("compiling_1s", compile_s=0.2)
enter("compiling_2s", compile_s=0.4)
enter("compiling_4s", compile_s=0.8)
enter("stalls", stall=True)
enter("leaks", leak=True)
enter("eager_inexact", inexact=4e-3)
