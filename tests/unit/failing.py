"""What the suites find wrong in observations, and the culprits of that."""

from compilegate.culprits.grouping import FAILED, Failure, culprits
from compilegate.judging.budget import Budget
from compilegate.judging.rules import verdicts
from tests.unit.making import (
    make_call,
    make_capture,
    make_checked,
    make_compilation,
    make_error,
    make_observation,
)

A, B = "one-cpu-infer-f32-default-static", "two-cpu-infer-f32-default-static"
WRONG = {"compiled_rms": 0.01, "compiled_max": 0.05}


def failures(*observations, **budget):
    """What the suites find wrong, in the order of the observations."""
    found = ((o, v) for o in observations for v in verdicts(o, Budget(**budget)))
    return [Failure(o, v) for o, v in found if v.outcome in FAILED]


def found(*observations):
    return culprits(failures(*observations))


def wrong(case, **groups):
    healthy = {"outputs": make_checked(make_error("output", **WRONG))}
    return make_observation(case=case, calls=(make_call(**groups or healthy),) * 2)


def broken(case, *breaks):
    return make_observation(case=case, capture=make_capture(breaks=breaks))


def recompiled(case, *reasons, code=None):
    items = [make_compilation(i, reason, code) for i, reason in enumerate(("", *reasons))]
    return make_observation(case=case, capture=make_capture(compilations=tuple(items)))
