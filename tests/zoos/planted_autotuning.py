"""Plants a fault in this process: where Inductor autotunes, its code for ``tanh`` is wrong."""

import torch
from torch import nn
from torch._inductor import config
from torch._inductor.lowering import lowerings

from compilegate import Example, model

aten = torch.ops.aten
tanh, multiply = lowerings[aten.tanh.default], lowerings[aten.mul.Tensor]


def wrong_where_tuned(x):
    return multiply(tanh(x), 1.01) if config.max_autotune else tanh(x)


lowerings[aten.tanh.default] = wrong_where_tuned


@model("tuned", settings=("infer-f32-max_autotune-static",))
def tuned():
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    return Example(net, inputs=lambda: (torch.randn(5, 8),))
