"""Plants a fault in this process: Inductor's code for ``tanh`` is one per cent too large."""

import torch
from torch import nn
from torch._inductor.lowering import lowerings

from compilegate import Example, model

aten = torch.ops.aten
tanh, multiply = lowerings[aten.tanh.default], lowerings[aten.mul.Tensor]
lowerings[aten.tanh.default] = lambda x: multiply(tanh(x), 1.01)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x).sigmoid() * x.tanh()


@model("gated", settings=("infer-f32-default-static",))
def gated():
    net = nn.Sequential(nn.Linear(8, 8), Gate(), nn.Linear(8, 3))
    return Example(net, inputs=lambda: (torch.randn(5, 8),))
