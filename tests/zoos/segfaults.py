"""Models whose compiled code, or whose compiler, dies of a segmentation fault."""

import ctypes

import torch
from torch import nn

from compilegate import Example, model


def example(module):
    """An example with small inputs, for code that may read out of bounds."""
    torch._inductor.config.assert_indirect_indexing = False
    return Example(module, inputs=lambda: (torch.randn(2, 4),))


class ReadsFarAway(nn.Module):
    """Reads out of bounds, where it is compiled."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("far", torch.full((2,), 1 << 40))

    def forward(self, x):
        x = self.linear(x)
        return x[self.far].sin() if torch.compiler.is_compiling() else x.sin()


class FarGradient(torch.autograd.Function):
    """Doubles its input. Its backward reads out of bounds."""

    @staticmethod
    def forward(ctx, x, far):
        ctx.save_for_backward(far)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (far,) = ctx.saved_tensors
        return gradient[far].sin(), None


class ReadsFarAwayInBackward(ReadsFarAway):
    """Reads out of bounds in its backward, where it is compiled."""

    def forward(self, x):
        x = self.linear(x)
        return FarGradient.apply(x, self.far) if torch.compiler.is_compiling() else x * 2


@model("segfaults_in_a_kernel")
def segfaults_in_a_kernel():
    return example(ReadsFarAway())


@model("segfaults_in_a_backward_kernel")
def segfaults_in_a_backward_kernel():
    return example(ReadsFarAwayInBackward())


@model("segfaults_in_a_compile_worker")
def segfaults_in_a_compile_worker():
    from torch._inductor.async_compile import AsyncCompile

    AsyncCompile.process_pool().submit(ctypes.string_at, 0)
    return example(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))


@model("healthy")
def healthy():
    return example(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()))
