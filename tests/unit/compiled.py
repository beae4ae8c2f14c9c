"""The differences that real compiled code leaves, compared with eager."""

import torch

from compilegate.observe.compare.results import CallResults, compare_outputs, compare_state
from compilegate.observe.model.calls import PlannedCall
from compilegate.observe.model.subject import Subject
from compilegate.records.case import Case
from compilegate.zoo.example import Example
from compilegate.zoo.registry import Model

INFER = Case.parse("m-cpu-infer-f32-default-static")
TRAIN = Case.parse("m-cpu-train-f32-default-static")


def ones():
    return (torch.ones(3),)


def differences(build, case=INFER, *, calls=2, theirs=None, backend="aot_eager", inputs=ones):
    """Return the differences after some calls, each as ``(name, eager, compiled)``.

    Args:
        build: Builds a module or a function.
        case: The setting.
        calls: The number of calls.
        theirs: Called in place of compiled code.
        backend: Compiles the module.
        inputs: Makes its arguments.
    """
    torch._dynamo.reset()
    sides = [subject(build, case, inputs), subject(build, case, inputs)]
    sides[1].run = theirs or torch.compile(sides[1].module, backend=backend)
    found = []
    for index in range(calls):
        planned = PlannedCall(index, {})
        ours, compiled = (side.call(side.prepare(planned), index) for side in sides)
        results = CallResults(ours, compiled)
        checks = (compare_outputs(results), compare_state(results))
        found += [difference for checked in checks for difference in checked.differences]
    torch._dynamo.reset()
    return [(difference.where, difference.eager, difference.compiled) for difference in found]


def subject(build, case=INFER, inputs=ones):
    """Return a subject of a module or function."""
    return Subject(Model("m", "m", build=lambda: Example(build(), inputs=inputs)), case, 0)
