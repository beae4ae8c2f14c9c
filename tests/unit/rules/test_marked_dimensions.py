"""Dimensions that vary and that ``dims`` does not name make code under *marked* compile again."""

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


@pytest.mark.parametrize(("dynamic", "is_hinted"), [("marked", True), ("dynamic", False)])
def test_a_dimension_that_varies_and_is_not_marked_is_named(dynamic, is_hinted):
    code = make_place(12, "forward", "net.py")
    guard = "0/0: tensor 'batch['dense']' size mismatch at index 1. expected 8, actual 4"
    made = (make_compilation(0, code=code), make_compilation(1, guard, code))
    observation = make_observation(
        case=f"tiny-cpu-infer-f32-default-{dynamic}",
        calls=tuple(make_call(numbers={"[0][0].dense dim 1": n}) for n in (8, 4)),
        capture=make_capture(compilations=made),
    )
    finding = test_recompiles.rule(observation, Budget())
    assert finding.outcome == "failed"
    hint = "dimension 1 of batch['dense'] varies, but dims of Example do not name it"
    assert (hint in finding.details) is is_hinted


@pytest.mark.parametrize(
    ("numbers", "dims"),
    [
        (lambda batch, length: {"[0][0] dim 0": batch}, '0: {0: "batch"}'),
        (lambda batch, length: {"[0][1] dim 1": 2 * length + 1}, '1: {1: "length"}'),
        (
            lambda batch, length: {"[1].ids dim 0": batch, "[1].ids dim 1": length},
            '"ids": {0: "batch", 1: "length"}',
        ),
        (lambda batch, length: {"[0][0].image dim 2": length}, '(0, "image"): {2: "length"}'),
        (
            lambda batch, length: {"[0][0] dim 0": 7, "[0][1][2] dim 0": batch},
            '(1, 2): {0: "batch"}',
        ),
    ],
)
def test_a_recipe_names_all_dimensions_that_vary(numbers, dims):
    code = make_place(12, "forward", "net.py")
    guard = "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 4"
    sizes = [{"batch": 8, "length": 16}, {"batch": 4, "length": 16}, {"batch": 8, "length": 6}]
    observation = make_observation(
        case="tiny-cpu-infer-f32-default-marked",
        calls=tuple(make_call(sizes=each, numbers=numbers(**each)) for each in sizes),
        capture=make_capture(
            compilations=(make_compilation(0, code=code), make_compilation(1, guard, code))
        ),
    )
    finding = test_recompiles.rule(observation, Budget())
    assert f"  name all that vary, as in dims={{{dims}}}" in finding.details
