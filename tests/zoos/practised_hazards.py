"""Models with hazards: healthy ones, and twins with a fault that only this practice shows.

``torch.compiler.is_compiling()`` guards a wrong answer, as a fault of the compiler would be.
"""

import torch
from torch.compiler import is_compiling

from compilegate import Call, Catalogue, Example, model

RATES = torch.arange(1.0, 7.0)


def listed(name, as_written, rewritten, *, picked=None, **expected):
    """Enter a model with one hazard."""
    catalogue = Catalogue(name)

    @catalogue.hazard(name, pattern="a pattern", rewrite="another", **expected)
    def build():
        calls = [Call((RATES.clone(),)) for _ in range(2)]
        return (
            Example(as_written, calls=calls),
            Example(rewritten, calls=calls, output=picked),
        )

    @model(name, settings="train-f32-default-auto", practices=("hazards",))
    def host():
        return Example(torch.sin, inputs=lambda: (torch.randn(8),), hazards=catalogue.hazards)


def plain(x):
    return x.sin().cos()


def prints(x):
    y = x.sin()
    print("rows:", len(y))
    return y.cos()


def wrong_where_compiled(x):
    return x.sin().cos() + (0.5 if is_compiling() else 0.0)


def prints_twice(x):
    y = x.sin()
    print("rows", end=": ")
    if is_compiling():
        y = y.cos()
        print(len(y))
        return y
    print(len(y))
    return y.cos()


def prints_in_parts(x):
    y = x.sin()
    print("rows", end=": ")
    y = y.cos()
    print(len(y))
    return y


listed("sound_hazard", prints, plain, breaks=["GB0059"])
listed("improved_hazard", plain, plain, breaks=["GB0059"])
listed("silently_wrong_hazard", wrong_where_compiled, plain, breaks=["GB0059"])
listed("breaking_rewrite", prints, prints, breaks=["GB0059"])
listed("unknown_break", prints, plain)
listed("second_break", prints_twice, plain, breaks=["GB0059"])
listed("broken_twice_hazard", prints_in_parts, plain, breaks=["GB0059", "GB0059"])


def labelled(x):
    y = x.sin()
    print("rows:", len(y))
    return y.cos(), "rows"


def numbered(x):
    return x.sin().cos(), x.sum()


def with_label(output):
    return output[0], "rows"


listed("relabelled_hazard", labelled, numbered, picked=with_label, breaks=["GB0059"])
