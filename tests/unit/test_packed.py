"""Observations that a session keeps in memory are packed."""

import math
import pickle

import pytest

from compilegate.runs.packed import PackedObservations
from tests.unit.making import make_observation


@pytest.fixture
def packed():
    """Observations of the cases *a* and *b*, of which *b* is the last one."""
    made = PackedObservations()
    for case in ("a", "b"):
        made[case] = make_observation(case=case, spent_s={"run": math.inf}, output="é\0" * 20_000)
    return made


def test_an_observation_is_as_it_was(packed):
    assert packed["a"] == make_observation(
        case="a", spent_s={"run": math.inf}, output="é\0" * 20_000
    )


def test_the_last_observation_is_not_unpacked_again(packed):
    assert packed["a"] is packed["a"]
    assert packed["b"] is not packed["a"]


def test_a_case_that_is_observed_again_has_its_new_observation(packed):
    packed["a"] = make_observation(case="a", status="crashed")
    assert packed["a"].status == "crashed"
    assert packed["b"].status == "completed"


def test_a_case_may_have_another_name_than_its_observation(packed):
    packed["of the second trial"] = make_observation(case="a", status="crashed")
    assert packed["a"].status == "completed"
    assert packed["of the second trial"].status == "crashed"


def test_a_case_that_was_removed_is_missing(packed):
    del packed["b"]
    assert list(packed) == ["a"]
    with pytest.raises(KeyError):
        packed["b"]


def test_only_the_last_one_takes_its_whole_size():
    made = PackedObservations()
    for number in range(20):
        made[str(number)] = make_observation(case=str(number), output="some text " * 10_000)
    assert len(pickle.dumps(made)) < 2 * len(pickle.dumps(made["0"]))
