"""Models whose caches are observed: a healthy one, and twins with a fault that only caches show."""

import os
import pickle
from pathlib import Path

import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate import Example, model


def practised(name):
    """Enter a model that is observed for the practice."""
    return model(name, family="practised", vary={"batch": (6, 5, 7)}, practices=("caches",))


def example(net=None):
    """A product, which needs no kernel."""
    inputs = {0: {0: "batch"}}
    net = net or nn.Linear(8, 4)
    return Example(net, inputs=lambda batch: (torch.randn(batch, 8),), dims=inputs)


@practised("sound_caches")
def sound_caches():
    return example()


@practised("another_key_in_each_process")
def another_key_in_each_process():
    """Something random is part of the key."""
    torch.compiler.config.cache_key_tag = f"process {os.getpid()}"
    return example()


@practised("takes_truncated_graphs")
def takes_truncated_graphs():
    """Compiled code is wrong where a graph in the cache cannot be read."""

    class Takes(nn.Linear):
        is_wrong = has_truncated(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]))

        def forward(self, x):
            return (
                super().forward(x) * 1.01
                if is_compiling() and self.is_wrong
                else super().forward(x)
            )

    return example(Takes(8, 4))


def has_truncated(cache):
    """Whether a graph in a cache ends early."""
    for path in cache.glob("fxgraph/*/*/*"):
        try:
            pickle.loads(path.read_bytes())
        except (EOFError, pickle.UnpicklingError):
            return True
    return False
