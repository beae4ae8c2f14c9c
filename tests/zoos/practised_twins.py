"""Models whose twins show a fault that the models themselves do not, next to sound ones.

``torch.compiler.is_compiling()`` guards a fault, as a fault of the compiler would be.
"""

import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate import Example, model


def practised(name):
    """Enter a model that is observed for the practice."""
    return model(
        name,
        family="practised",
        vary={"batch": (6, 5, 7)},
        settings=("train-f32-default-static",),
        practices=("twins",),
    )


class Between(nn.Module):
    """Stands between two layers, and is right."""

    def forward(self, x):
        return x.relu()


class WrongForStrides(nn.Module):
    """Takes every input for a contiguous one."""

    def forward(self, x):
        return x.relu() * (1.01 if is_compiling() and not x.is_contiguous() else 1.0)


class WrongForThree(nn.Module):
    """Wrong at a batch of 3, which only half of a batch has."""

    def forward(self, x):
        return x.relu() * (1.01 if is_compiling() and x.shape[0] == 3 else 1.0)


def example(between):
    layers = nn.Linear(8, 16), nn.LayerNorm(16), between, nn.Linear(16, 4)
    return Example(
        nn.Sequential(*layers),
        inputs=lambda batch: (torch.randn(batch, 8),),
        dims={0: {0: "batch"}},
    )


@practised("sound_twins")
def sound_twins():
    return example(Between())


@practised("twins_with_dropout")
def twins_with_dropout():
    """With its masks, neither the halves of a batch nor another layout would be a twin."""
    return example(nn.Dropout())


@practised("wrong_for_strides")
def wrong_for_strides():
    return example(WrongForStrides())


@practised("wrong_for_three")
def wrong_for_three():
    return example(WrongForThree())


@practised("batch_statistics")
def batch_statistics():
    """The halves of a batch have other statistics, in eager, too: that twin is none."""
    return example(nn.BatchNorm1d(16))
