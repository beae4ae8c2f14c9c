"""Other random numbers, and the numbers that they change, have one cause."""

from dataclasses import replace

import pytest

from tests.unit.failing import WRONG, A, found, wrong
from tests.unit.making import make_checked, make_difference, make_error, make_randomness

TRAIN = "one-cpu-train-f32-default-static"


@pytest.mark.parametrize(("where", "count"), [("random generator", 1), ("attribute calls", 2)])
def test_other_draws_are_one_cause_with_the_numbers_that_they_change(where, count):
    state = make_checked(differences=[make_difference(where, "value", "'7c'", "'bf'")])
    seen = found(wrong(A, outputs=make_checked(make_error("output", **WRONG)), state=state))
    assert len(seen) == count
    assert seen[0].aspect == "forward"


@pytest.mark.parametrize(
    ("drawn", "count"), [({"slope": 0.986}, 1), ({"repeats": 12}, 2)], ids=["slope", "draws"]
)
def test_a_wrong_gradient_explains_the_slope_along_it(drawn, count):
    gradients = make_checked(make_error("gradient weight", **WRONG))
    observation = replace(wrong(TRAIN, gradients=gradients), wants=("capture", "vary", "random"))
    seen = found(replace(observation, draws=True, randomness=make_randomness(**drawn)))
    assert len(seen) == count
    assert {aspect for culprit in seen for aspect in culprit.aspects} == {"gradients", "randomness"}
