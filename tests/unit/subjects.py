"""Small subjects and their calls, which several tests share."""

import torch
from torch import nn

from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model

INFER = Case.parse("m-cpu-infer-f32-default-static")


TRAIN = Case.parse("m-cpu-train-f32-default-static")


TRAIN_BF16 = Case.parse("m-cpu-train-bf16-default-static")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.norm(self.first(x)).tanh())


def net():
    return Example(Net(), inputs=lambda batch: (torch.randn(batch, 8),))


def subject(build=net, case=TRAIN, seed=0, **how):
    vary = {"batch": (6, 3), "length": (24, 16)}
    return Subject(Model("m", "m", vary=vary, build=build), case, seed, **how)


def plan(index=0, batch=6):
    return PlannedCall(index, {"batch": batch})


def call(made, planned=None):
    planned = planned or plan()
    result = made.call(made.prepare(planned), planned.index)
    assert result.error is None, result.error
    return result


def example_of(function, *args, **kwargs):
    """Return a recipe of a function with fixed inputs."""

    def build():
        return Example(function, inputs=tuple(a() for a in args), kwargs=kwargs)

    return build


def rows(n=4, width=3):
    return lambda: torch.arange(n * width, dtype=torch.float32).reshape(n, width)
