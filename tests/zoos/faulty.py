"""Models that each misbehave in one way when they are compiled, and sound twins next to them.

``torch.compiler.is_compiling()`` guards each fault. So eager calls never run it, and the
fault acts as a wrong kernel would.
"""

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.functional import batch_norm

from compilegate import Call, Example, model


class Spoiled(nn.Module):
    """A linear layer whose compiled code changes the output."""

    def __init__(self, spoil):
        super().__init__()
        self.linear = nn.Linear(8, 3)
        self.spoil = spoil

    def forward(self, x):
        y = self.linear(x).tanh()
        return self.spoil(y) if is_compiling() else y


def spoiled(spoil, *shape):
    return Example(Spoiled(spoil), inputs=lambda: (torch.randn(*(shape or (5, 8))),))


def called(module):
    return Example(module, inputs=lambda: (torch.randn(5, 8),))


@model("sound")
def sound():
    return spoiled(lambda y: y * 1.0)


# Wrong outputs.


@model("scale_is_off")
def scale_is_off():
    return spoiled(lambda y: y * 1.01)


@model("element_is_off")
def element_is_off():
    return spoiled(lambda y: y + 0.01 * (torch.arange(15).view(5, 3) == 7))


@model("nan_appears")
def nan_appears():
    return spoiled(lambda y: torch.where(torch.arange(15).view(5, 3) == 7, torch.nan, y))


@model("shape_is_off")
def shape_is_off():
    return spoiled(lambda y: y.unsqueeze(0), 8)


@model("dtype_is_off")
def dtype_is_off():
    return spoiled(lambda y: y.double())


@model("stride_is_off")
def stride_is_off():
    return spoiled(lambda y: y.t().contiguous().t())


@model("structure_is_off")
def structure_is_off():
    return spoiled(lambda y: (y,))


@model("view_is_lost")
def view_is_lost():
    class ReturnsAView(nn.Module):
        def forward(self, x):
            return x.clone()[:2] if is_compiling() else x[:2]

    return called(ReturnsAView())


@model("only_zeros")
def only_zeros():
    return called(nn.Threshold(100.0, 0.0))


# Right outputs with wrong gradients.


@model("gradient_is_doubled")
def gradient_is_doubled():
    return spoiled(lambda y: y * 2 - y.detach())


@model("gradient_is_lost")
def gradient_is_lost():
    class LosesBias(nn.Linear):
        def forward(self, x):
            bias = self.bias.detach() if is_compiling() else self.bias
            return nn.functional.linear(x, self.weight, bias)

    return called(LosesBias(8, 3))


# Right outputs with wrong side effects.


@model("mutation_is_lost")
def mutation_is_lost():
    class Doubles(nn.Module):
        def forward(self, x):
            return x.mul(2.0) * 3.0 if is_compiling() else x.mul_(2.0) * 3.0

    return called(Doubles())


class Normalizes(nn.Module):
    """A batch norm whose compiled code skips the update of its statistics at some batch sizes."""

    def __init__(self, forgets):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.forgets = forgets

    def forward(self, x):
        if self.forgets(x.shape[0]) and is_compiling():
            mean, var = self.norm.running_mean.clone(), self.norm.running_var.clone()
            self.norm.num_batches_tracked.add_(1)
            weight, bias, momentum = self.norm.weight, self.norm.bias, self.norm.momentum
            given = (mean, var, weight, bias, self.training)
            return batch_norm(x, *given, momentum=momentum, eps=self.norm.eps)
        return self.norm(x)


@model("statistic_is_lost")
def statistic_is_lost():
    return called(Normalizes(forgets=lambda rows: True))


@model("statistic_is_lost_at_another_size", vary={"batch": (5, 7)})
def statistic_is_lost_at_another_size():
    return Example(
        Normalizes(forgets=lambda rows: rows == 7), inputs=lambda batch: (torch.randn(batch, 8),)
    )


@model("statistic_is_kept", vary={"batch": (5, 7)})
def statistic_is_kept():
    return Example(
        Normalizes(forgets=lambda rows: False), inputs=lambda batch: (torch.randn(batch, 8),)
    )


class Counts(nn.Module):
    """Counts its calls in a buffer. With ``wrongly``, compiled code counts each call twice."""

    def __init__(self, wrongly):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0))
        self.wrongly = wrongly

    def forward(self, x):
        self.calls.add_(2 if self.wrongly and is_compiling() else 1)
        return x.sin()


@model("counts_wrongly")
def counts_wrongly():
    return called(Counts(wrongly=True))


@model("counts")
def counts():
    return called(Counts(wrongly=False))


class SetsGradMode(nn.Module):
    """Leaves grad mode on, which the case has off. With ``forgets``, compiled code does not."""

    def __init__(self, forgets):
        super().__init__()
        self.forgets = forgets

    def forward(self, x):
        y = x.sin()
        if not (self.forgets and is_compiling()):
            torch.set_grad_enabled(True)
        return y


@model("switch_is_lost")
def switch_is_lost():
    return called(SetsGradMode(forgets=True))


@model("switch_is_set")
def switch_is_set():
    return called(SetsGradMode(forgets=False))


def hooked(forgets):
    """A module with a hook that writes the number of rows to a variable in its closure."""
    seen = {"rows": 0}

    def keep(module, args, output):
        if not (forgets and is_compiling()):
            seen["rows"] = len(output)

    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    net[0].register_forward_hook(keep)
    return net


@model("hook_forgets")
def hook_forgets():
    return called(hooked(forgets=True))


@model("hook_keeps")
def hook_keeps():
    return called(hooked(forgets=False))


# Graph breaks and recompilations.


class Breaks(nn.Module):
    """Two layers, with a graph break between them if ``breaks`` is set."""

    def __init__(self, breaks):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 3)
        self.breaks = breaks

    def forward(self, x):
        y = self.first(x).relu()
        if self.breaks:
            torch._dynamo.graph_break()
        return self.second(y)


@model("breaks")
def breaks():
    return called(Breaks(breaks=True))


@model("unbroken")
def unbroken():
    return called(Breaks(breaks=False))


@model("prints")
def prints():
    class Prints(nn.Module):
        def forward(self, x):
            y = x.sin()
            print("in forward", type(y).__name__)
            return y.cos()

    return called(Prints())


@model("runs_eagerly")
def runs_eagerly():
    class Disabled(nn.Module):
        @torch.compiler.disable
        def forward(self, x):
            return x.sin()

    return called(Disabled())


@model("uncompilable")
def uncompilable():
    return spoiled(lambda y: y @ torch.ones(7, 7))


class Steps(nn.Module):
    """Reads a Python number that each call changes by ``step``."""

    def __init__(self, step):
        super().__init__()
        self.at, self.step = 1, step

    def forward(self, x):
        self.at += self.step
        return x * self.at


@model("recompiles")
def recompiles():
    return called(Steps(step=1))


@model("compiles_once")
def compiles_once():
    return called(Steps(step=0))


@model("recompiles_to_the_limit")
def recompiles_to_the_limit():
    calls = [Call((torch.randn(5, 8),)) for _ in range(12)]
    return Example(Steps(step=1), calls=calls)


class Loops(nn.Module):
    """A Python loop over the batch, so each size is compiled separately."""

    def forward(self, x):
        return torch.stack([row.sin() for row in x.unbind(0)]).sum(0)


@model("specializes", vary={"batch": (3, 4, 5)})
def specializes():
    return Example(Loops(), inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}})


@model("generalizes", vary={"batch": (3, 4, 5)})
def generalizes():
    return Example(
        nn.Linear(8, 3), inputs=lambda batch: (torch.randn(batch, 8),), dims={0: {0: "batch"}}
    )


# Memory.


@model("wastes_memory")
def wastes_memory():
    return spoiled(lambda y: y + torch.zeros(4 * 2**20).sum())


# A library that is not installed.


@model("lacks_its_library", requires="no_such_package")
def lacks_its_library():
    raise AssertionError("the builder ran without its library")
