"""Operators that end the process for NaN: in eager, in compiled code, or after compiled code."""

import os
import signal

import torch
from torch import nn

from compilegate import Example, model

ONE = ("infer-f32-default-static",)
# Each side has its own global variables, and its own environment variables with usual names.
DAMAGED = "compilegate-test-damaged"


@torch.library.custom_op("deadly::nan", mutates_args=())
def dies_of_nan(x: torch.Tensor) -> torch.Tensor:
    if bool(x.isnan().any()):
        os.kill(os.getpid(), signal.SIGSEGV)
    return x.clone()


@torch.library.custom_op("deadly::damage", mutates_args=())
def damages_memory(x: torch.Tensor) -> torch.Tensor:
    os.environ[DAMAGED] = "1"
    return x.clone()


@torch.library.custom_op("deadly::nothing", mutates_args=())
def dies_of_nothing(x: torch.Tensor) -> torch.Tensor:
    if not x.numel():
        os.kill(os.getpid(), signal.SIGFPE)
    return x.clone()


dies_of_nothing.register_fake(torch.empty_like)
dies_of_nan.register_fake(torch.empty_like)
damages_memory.register_fake(torch.empty_like)


class Linear(nn.Module):
    def __init__(self, action):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.action = action

    def forward(self, x):
        return self.action(self.linear(x))


def in_eager_too(y):
    return dies_of_nan(y)


def wrong(y):
    return dies_of_nan(y) * (1.01 if torch.compiler.is_compiling() else 1.0)


def only_in_compiled_code(y):
    return dies_of_nan(y) if torch.compiler.is_compiling() else y


def after_compiled_code(y):
    if torch.compiler.is_compiling():
        return damages_memory(y)
    return dies_of_nan(y) if DAMAGED in os.environ else y


def of_an_empty_batch(y):
    return dies_of_nothing(y) if torch.compiler.is_compiling() else y


for action in (of_an_empty_batch, in_eager_too, wrong, only_in_compiled_code, after_compiled_code):

    @model(action.__name__, vary={"batch": (6, 4)}, settings=ONE)
    def build(action=action):
        return Example(
            Linear(action),
            inputs=lambda batch: (torch.randn(batch, 4),),
            dims={0: {0: "batch"}},
        )
