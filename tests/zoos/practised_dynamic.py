"""Models whose batch size varies: healthy ones, and twins with a fault.

``torch.compiler.is_compiling()`` guards a fault, as a fault of the compiler would be.
"""

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.fx.experimental.symbolic_shapes import statically_known_true

from compilegate import Example, model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.first(x).relu())


def practised(name, **declared):
    """Enter a model that is observed for the practice."""
    declared = {"vary": {"batch": (6, 4, 7)}} | declared
    return model(name, family="practised", practices=("dynamic_strategies",), **declared)


def example(net):
    return Example(net, inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}})


@practised("sound_sizes")
def sound_sizes():
    return example(Net())


@practised("sound_texts", vary={"batch": (4, 2), "length": (6, 9)})
def sound_texts():
    """Two inputs share both dimensions, and the mask hides what padding adds."""

    class Masked(Net):
        def forward(self, x, *, mask):
            scores = (x @ x.mT).masked_fill(mask[:, None] == 0, float("-inf"))
            return super().forward(scores.softmax(-1) @ x)

    named = {0: "batch", 1: "length"}
    return Example(
        Masked(),
        inputs=lambda batch, length: (torch.randn(batch, length, 8),),
        kwargs=lambda batch, length: {"mask": torch.ones(batch, length)},
        dims={0: named, "mask": named},
    )


@practised("specialises_where_marked")
def specialises_where_marked():
    """Compiled code holds for one size alone, also where the dimension is marked."""

    class Specialises(Net):
        def forward(self, x):
            if is_compiling():
                x = torch.cat([x[:0], *(x[i : i + 1] for i in range(x.shape[0]))])
            return super().forward(x)

    return example(Specialises())


@practised("wrong_at_size_one")
def wrong_at_size_one():
    """A batch of one item is wrong where code is compiled for it alone."""

    class Wrong(Net):
        def forward(self, x):
            alone = is_compiling() and statically_known_true(x.shape[0] == 1)
            return super().forward(x) * (1.01 if alone else 1.0)

    return example(Wrong())


@practised("counts_padding")
def counts_padding():
    """Compiled code scales by the share of items that are not padding."""

    class Counts(Net):
        def forward(self, x):
            if is_compiling():
                return super().forward(x) * (x != 0).any(1).float().mean()
            return super().forward(x)

    return example(Counts())


@practised("compiles_each_bucket_again")
def compiles_each_bucket_again():
    """Compiled code depends on how many items are padding, so that the warm-up warms nothing."""

    class Again(Net):
        def forward(self, x):
            if is_compiling() and int((x != 0).any(1).sum()) == 0:  # a guard on the number
                return super().forward(x) * 0
            return super().forward(x)

    return example(Again())
