"""A dimension that is compiled for one size each time is named as one that the code fixes."""

import pytest

from compilegate.judging.budget import Budget
from compilegate.suites import test_recompiles
from tests.unit.making import (
    make_call,
    make_capture,
    make_compilation,
    make_observation,
    make_place,
)


def guard(dim, expected, actual):
    return f"0/0: tensor 'x' size mismatch at index {dim}. expected {expected}, actual {actual}"


OTHER = "0/1: x.stride()[0] == 4"


@pytest.mark.parametrize(
    ("dynamic", "guards", "is_hinted"),
    [
        ("auto", (guard(0, 8, 4), guard(0, 4, 2)), True),
        ("auto", (guard(0, 8, 4), guard(1, 8, 4), OTHER), False),
        ("dynamic", (guard(0, 8, 4),), True),
        ("dynamic", (OTHER,), False),
        ("marked", (guard(0, 8, 4), guard(0, 4, 2)), False),
    ],
    ids=["twice", "each once", "dynamic from the start", "another guard", "not named in dims"],
)
def test_a_dimension_that_the_code_fixes_is_named(dynamic, guards, is_hinted):
    code = make_place(12, "forward", "net.py")
    again = (make_compilation(index + 1, reason, code) for index, reason in enumerate(guards))
    observation = make_observation(
        case=f"tiny-cpu-infer-f32-default-{dynamic}",
        calls=(make_call(numbers={"input[0] dim 0": 8}),) * 4,
        capture=make_capture(compilations=(make_compilation(0, code=code), *again)),
    )
    finding = test_recompiles.rule(observation, Budget())
    assert finding.outcome == "failed"
    hint = "dimension 0 of x is compiled for one size each time: the code fixes it"
    assert (hint in finding.details) is is_hinted
