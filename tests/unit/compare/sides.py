"""The eager, compiled and reference sides of one call."""

import torch
from torch import nn

from compilegate.observe.compare.results import (
    CallResults,
    compare_gradients,
    compare_outputs,
    compare_state,
)
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.float64 import Lifting
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model
from tests.unit.excess import exceeds

INFER = Case.parse("m-cpu-infer-f32-default-static")
TRAIN = Case.parse("m-cpu-train-f32-default-static")
PLANNED = PlannedCall(0, {})


def make_input():
    return torch.randn(6, 4)


class Compared:
    """Return three sides of one call: eager runs ``ours``, compiled code runs ``theirs``.

    Where ``ours`` is a class of modules, ``theirs`` is given the module first.
    """

    def __init__(self, ours, theirs, case=INFER, inputs=make_input):
        def build():
            return Example(ours() if isinstance(ours, type) else ours, inputs=(inputs(),))

        model = Model("m", "m", build=build)
        eager, compiled = (Subject(model, case, 0) for _ in range(2))
        reference = Subject(model, case, 0, lifting=Lifting())
        if isinstance(compiled.module, nn.Module):
            compiled.run = lambda *args: theirs(compiled.module, *args)
        else:
            compiled.run = theirs
        arguments = eager.prepare(PLANNED)
        self.eager = eager.call(arguments, 0)
        self.compiled = compiled.call(compiled.prepare(PLANNED), 0)
        self.reference = reference.call(reference.prepare(PLANNED), 0)
        self.results = CallResults(self.eager, self.compiled, [self.reference])

    @property
    def outputs(self):
        return compare_outputs(self.results)

    @property
    def gradients(self):
        return compare_gradients(self.results)

    @property
    def state(self):
        return compare_state(self.results)


def differences(ours, theirs, **how):
    found = Compared(ours, theirs, **how).outputs.differences
    return [(d.where, d.what, d.eager, d.compiled) for d in found]


def complaints(checked):
    return [text for error in checked.errors if (text := exceeds(error, 0.0))]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 5)
        self.norm = nn.BatchNorm1d(5)

    def forward(self, x):
        y = self.norm(self.linear(x)).tanh()
        return {"y": y, "argmax": y.argmax(), "view": x[1:], "scale": 0.5, "none": None}
