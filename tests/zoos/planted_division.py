"""Plants a fault in this process: compiled code divides by one per cent too little."""

import torch
from torch._inductor.decomposition import decompositions

aten = torch.ops.aten


def divide(x, y):
    return aten.mul.Tensor(aten.mul.Tensor(x, aten.pow.Tensor_Scalar(y, -1)), 1.01)


def divide_numbers(x, y):
    return divide(x, y) if isinstance(y, torch.Tensor) else aten.mul.Tensor(x, 1.01 / y)


decompositions[aten.div.Tensor] = divide_numbers
