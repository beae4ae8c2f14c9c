"""Pairs of processes: which of those in a run file count."""

from compilegate.records.pair import latest
from tests.unit.making import make_pair

CASE, OTHER = "tiny-cpu-train-f32-default-static", "tiny-cpu-infer-f32-default-static"


def test_pairs_of_an_earlier_observation_do_not_count():
    """One case was observed again, and the file holds both runs; another case was not."""
    earlier = [make_pair(number, CASE, compiled=1.05) for number in range(11)]
    other = [make_pair(number, OTHER) for number in range(2)]
    now = [make_pair(number, CASE, compiled=1.2) for number in range(3)]
    assert list(latest([*earlier, *other, *now]).values()) == [*other, *now]


def test_a_pair_that_a_file_holds_twice_counts_once():
    given = [make_pair(number, CASE) for number in (1, 2)]
    assert list(latest([*given, *given]).values()) == given
