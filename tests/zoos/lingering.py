"""The first model takes longer to build than the session may begin cases for."""

import time

import torch
from torch import nn

from compilegate import Example, model

SECONDS = 25.0
#: The builds of this process: the first one lingers.
_builds: list[str] = []


@model("a_lingering", family="tiny")
def lingering():
    if not _builds:
        time.sleep(SECONDS)
    _builds.append("one")
    return healthy()


@model("b_healthy", family="tiny")
def healthy():
    return Example(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), inputs=(torch.randn(3, 8),))
