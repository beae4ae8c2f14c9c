"""What really compiled code leaves otherwise than eager does."""

import torch

from fixtures.cases import Case
from fixtures.observe.calls import PlannedCall
from fixtures.observe.compare import compare_outputs, compare_state
from fixtures.observe.subject import Subject
from fixtures.zoo import Example, Model

INFER = Case.parse("m-cpu-infer-f32-default-static")
TRAIN = Case.parse("m-cpu-train-f32-default-static")


def differences(build, case=INFER, *, calls=2, theirs=None, backend="aot_eager"):
    """What compiled code leaves differently in some calls: ``(name, eager, compiled)``.

    Args:
        build: Builds a module or a function of one tensor.
        case: The setting.
        calls: How many are made.
        theirs: Called in place of compiled code.
        backend: Compiles it.
    """
    torch._dynamo.reset()
    sides = [subject(build, case), subject(build, case)]
    sides[1].run = theirs or torch.compile(sides[1].module, backend=backend)
    found = []
    for index in range(calls):
        planned = PlannedCall(index, {})
        ours, compiled = (side.call(side.prepare(planned), index) for side in sides)
        checks = (compare_outputs(ours, compiled, []), compare_state(ours, compiled, []))
        found += [difference for checked in checks for difference in checked.differences]
    torch._dynamo.reset()
    return [(difference.where, difference.eager, difference.compiled) for difference in found]


def subject(build, case=INFER):
    """A subject of a module or function that is given three ones."""
    model = Model("m", "m", build=lambda: Example(build(), inputs=lambda: (torch.ones(3),)))
    return Subject(model, case, 0)
