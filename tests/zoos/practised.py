"""Models with practices: healthy ones, and twins with a fault that only a practice shows.

``torch.compiler.is_compiling()`` guards each fault, as a fault of the compiler would be.
"""

import torch
from torch import nn
from torch.compiler import is_compiling

from compilegate import Example, model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.norm(self.first(x)).relu())


def example(net):
    return Example(net, inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}})


def practised(name, *practices):
    """Enter a model that is observed for practices."""
    return model(name, family="practised", vary={"batch": (6, 5, 7)}, practices=practices)


@practised("sound_checkpoints", "checkpoints")
def sound_checkpoints():
    return example(Net())


class Counting(Net):
    """Counts its calls, in eval, too; compiled code may count in a buffer that nobody holds."""

    def __init__(self, *, loses_count):
        super().__init__()
        self.loses_count = loses_count
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        if not (self.loses_count and is_compiling()):
            self.count += 1
        return super().forward(x - self.mean)


@practised("sound_counter", "checkpoints")
def sound_counter():
    return example(Counting(loses_count=False))


@practised("loses_count", "checkpoints")
def loses_count():
    return example(Counting(loses_count=True))


class Scaled(Net):
    def __init__(self, compiles_in_training):
        super().__init__()
        self.compiles_in_training = compiles_in_training
        self.dropout = nn.Dropout(0.25)

    def forward(self, x):
        is_scaled = self.training and (self.compiles_in_training or not is_compiling())
        return self.dropout(super().forward(x)) * (3.0 if is_scaled else 1.0)


@practised("scales_in_training", "checkpoints")
def scales_in_training():
    return example(Scaled(compiles_in_training=True))


@practised("scales_in_eager_training", "checkpoints")
def scales_in_eager_training():
    return example(Scaled(compiles_in_training=False))


@practised("loses_loaded_bias", "checkpoints")
def loses_loaded_bias():
    """Compiled code keeps a copy of the bias, and loading does not renew it."""

    class Loses(Net):
        was_compiled = False

        def forward(self, x):
            if is_compiling():
                Loses.was_compiled = True
            return super().forward(x)

        def load_state_dict(self, state, *others, **named):
            if Loses.was_compiled:
                state = {**state, "second.bias": self.second.bias.detach().clone()}
            return super().load_state_dict(state, *others, **named)

    return example(Loses())


@practised("loses_dtype", "checkpoints")
def loses_dtype():
    """The compiled module's state_dict has the values in another dtype, which loses nothing."""

    def widen(module, state, prefix, metadata):
        if prefix:  # that of the compiled module
            state.update({name: value.double() for name, value in state.items()})

    net = Net()
    net.register_state_dict_post_hook(widen)
    return example(net)
