"""Models that are trained in loops: a healthy one, and twins with faults that only loops show.

``torch.compiler.is_compiling()`` guards each fault, as a fault of the compiler would be.
"""

import importlib

import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate import Example, model

LOOPS = ("training_loop", "compiled_optimizer")
BACKWARDS = ("activation_checkpointing", "compiled_autograd")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.linear(self.norm(x)).relu()


class Net(nn.Module):
    block_class = Block

    def __init__(self):
        super().__init__()
        self.block = self.block_class()
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.block(x))


def practised(name, *practices):
    """Enter a model that is observed for practices."""
    return model(name, family="practised", vary={"batch": (12, 5, 7)}, practices=practices)


def example(net):
    return Example(net, inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}})


@practised("sound_training", *LOOPS, *BACKWARDS)
def sound_training():
    return example(Net())


@practised("eager_optimizer", "compiled_optimizer")
def eager_optimizer():
    """The steps of the optimizers are left to eager: right, and not compiled."""
    for optimizer in (torch.optim.AdamW, torch.optim.SGD):
        optimizer.step = torch.compiler.disable(optimizer.step)
    return example(Net())


NOTED = []


class Noted(Net):
    """Knows whether it was compiled."""

    was_compiled = False

    def __init__(self):
        super().__init__()
        NOTED.append(self)

    def forward(self, x):
        if is_compiling():
            self.was_compiled = True
        return super().forward(x)


def without_momentum(step):
    """Return an eager step of SGD that has no momentum where the model was compiled."""

    def wrong(self, *args, **kwargs):
        (group,) = self.param_groups
        is_eager = isinstance(group["lr"], float)  # a compiled optimizer has a tensor
        trained = {id(parameter) for parameter in group["params"]}
        nets = [net for net in NOTED if id(net.head.weight) in trained]
        if is_eager and any(net.was_compiled for net in nets):
            group["momentum"] = 0.0
        return step(self, *args, **kwargs)

    return wrong


def at_the_first_rate(adam):
    """Return the function of Adam's step, which keeps the first rate where it is compiled."""

    def wrong(*args, lr, **kwargs):
        return adam(*args, lr=1e-3 if is_compiling() else lr, **kwargs)

    return wrong


@practised("wrong_optimizer", *LOOPS)
def wrong_optimizer():
    """SGD has no momentum with a compiled model, and compiled AdamW keeps its first rate."""
    if not NOTED:
        torch.optim.SGD.step = without_momentum(torch.optim.SGD.step)
        module = importlib.import_module("torch.optim.adam")  # the package hides it
        module.adam = at_the_first_rate(module.adam)
    return example(Noted())


@practised("wrong_backward", *BACKWARDS)
def wrong_backward():
    """A checkpointed block stops gradients, and compiled autograd doubles those of the head."""

    class Stops(Block):
        def forward(self, x):
            is_checkpointed = "forward" in vars(self)
            return super().forward(x.detach() if is_checkpointed and is_compiling() else x)

    class Doubles(Net):
        block_class = Stops

        def __init__(self):
            super().__init__()
            self.head.weight.register_hook(lambda g: g * 2 if is_compiling() else g)

    return example(Doubles())
