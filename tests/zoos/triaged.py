"""Models for a broken PyTorch: two divide in a submodule, one rounds, one has an error function."""

import torch
from torch import nn

from compilegate import Example, model

ONE = ("infer-f32-default-static",)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return torch.sigmoid(self.inner(x)) * (x / (1 + x.abs()))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.gate, self.after = nn.Linear(8, 8), Gate(), nn.LayerNorm(8)

    def forward(self, x):
        return self.after(self.gate(self.before(x).relu()))


class ErrorFunction(nn.Module):
    def forward(self, x):
        return torch.special.erfcx(x)


def example(*modules):
    net = nn.Sequential(nn.Linear(8, 8), *modules, nn.Linear(8, 3))
    return Example(net, inputs=lambda batch=5: (torch.randn(batch, 8),), dims={0: {0: "batch"}})


@model("divides", settings=ONE, vary={"batch": (24, 16)})
def divides():
    return example(Block())


class Ratio(nn.Module):
    def forward(self, x):
        return x.tanh() / (2 + x.cos())


@model("divides_too", settings=ONE)
def divides_too():
    return example(nn.Tanh(), Ratio())


class Floor(nn.Module):
    def forward(self, x):
        return torch.div(x, 0.37, rounding_mode="floor")


@model("floors", settings=ONE)
def floors():
    return example(Floor())


@model("aborts", settings=ONE)
def aborts():
    return example(nn.Tanh(), ErrorFunction())


@model("healthy", settings=ONE)
def healthy():
    return example(nn.Tanh(), nn.LayerNorm(8))


class Second(nn.Module):
    """Is wrong where it is compiled into one graph with the submodule that it is in."""

    def forward(self, x, joined):
        return x * 1.01 if joined and torch.compiler.is_compiling() else x


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Tanh(), Second(), nn.Sigmoid()

    def forward(self, x):
        return self.third(self.second(self.first(x), torch.compiler.is_compiling()))


class Copy(nn.Module):
    """Returns another tensor where it is compiled, which only shows where it is compiled alone."""

    def forward(self, x):
        return x.clone() if torch.compiler.is_compiling() else x


class OneRow(nn.Module):
    def forward(self, x):
        is_wrong = x.shape[0] == 1 and torch.compiler.is_compiling()
        return x * 1.01 if is_wrong else x * 1.0


class Transposed(nn.Module):
    def forward(self, x):
        is_wrong = x.stride(0) == 1 and torch.compiler.is_compiling()
        return x * 1.01 if is_wrong else x * 1.0


def probed(*modules):
    net = nn.Sequential(*modules, nn.Tanh())
    return Example(net, inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}})


@model("one_row", vary={"batch": (6, 4)}, settings=ONE)
def one_row():
    return probed(nn.Linear(8, 8), OneRow())


@model("transposed", vary={"batch": (6, 4)}, settings=ONE)
def transposed():
    return probed(Transposed(), nn.Linear(8, 8))


class Scaled(nn.Module):
    def forward(self, x):
        return x * 1.01 if torch.compiler.is_compiling() else x * 1.0


@model("copies", settings=ONE)
def copies():
    return example(Copy(), Scaled())


@model("scaled", settings=ONE)
def scaled():
    return Example(nn.Sequential(Scaled()), inputs=(torch.randn(5, 8),))


@model("together", settings=ONE)
def together():
    return example(Pair())


class Detour(nn.Module):
    """Compiled code multiplies large matrices, and does not use the product."""

    def __init__(self, detours):
        super().__init__()
        self.detours, self.large = detours, nn.Parameter(torch.randn(256, 256))

    def forward(self, x):
        if self.detours and torch.compiler.is_compiling():
            return x.tanh() + 0 * (self.large @ self.large).amax()
        return x.tanh()


@model("detours", settings=ONE)
def detours():
    return example(Detour(detours=True))


@model("direct", settings=ONE)
def direct():
    return example(Detour(detours=False))


@model("counts", settings=ONE)
def counts():
    """Each call finds a longer list, and is compiled again."""
    seen = []

    def count(x):
        seen.append(0)
        return x * len(seen)

    return Example(count, inputs=lambda: (torch.randn(4),))


class First(nn.Module):
    """Counts its calls in an attribute, then breaks the graph."""

    def __init__(self):
        super().__init__()
        self.first = 0

    def forward(self, x):
        self.first += 1
        x = x * self.first
        torch._dynamo.graph_break()
        return x


class Next(nn.Module):
    def __init__(self):
        super().__init__()
        self.next = 0

    def forward(self, x):
        self.next += 1
        return x * self.next


class Tagged(nn.Module):
    """Has another tag in each call, so that the rounds which are timed reach Dynamo's limit."""

    def __init__(self):
        super().__init__()
        self.tag = "a"

    def forward(self, x):
        self.tag += "a"
        return x * len(self.tag)


class Refusing(nn.Module):
    def forward(self, x):
        if torch.compiler.is_compiling():
            raise ValueError("not for compilers")
        return x + 1


@model("tagged", settings=ONE)
def tagged():
    return Example(nn.Sequential(nn.Linear(4, 4), Tagged()), inputs=lambda: (torch.randn(3, 4),))


@model("refusing", settings=ONE)
def refusing():
    return Example(nn.Sequential(nn.Linear(4, 4), Refusing()), inputs=lambda: (torch.randn(3, 4),))


class Report(nn.Module):
    def forward(self, x):
        print("between")
        return x + 1


@model("two_breaks_two_guards", settings=ONE)
def two_breaks_two_guards():
    module = nn.Sequential(First(), Report(), Next())
    return Example(module, inputs=lambda: (torch.randn(4),))


class Later(nn.Module):
    """Is wrong from the third compiled call on, as a graph is that is replayed."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        is_wrong = torch.compiler.is_compiling() * (self.calls > 2)
        return x.tanh() * (1 + 0.1 * is_wrong)


@model("later", settings=ONE)
def later():
    return example(Later())
