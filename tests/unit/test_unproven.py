"""A case that the machine ended proves nothing: it is neither broken nor safe."""

import pytest

from tests.unit.making import make_failed_observation
from tests.unit.runs import compared, seen

BUSY = make_failed_observation(
    "timed_out", kind="busy machine", message="the machine was busy", others_took=0.8
)
CROWDED = make_failed_observation("out_of_memory", held_by_others=0.5)


@pytest.mark.parametrize("ended", [BUSY, CROWDED], ids=["busy", "crowded"])
def test_a_candidate_that_the_machine_ended_is_never_broken_and_never_safe(ended):
    found = compared(seen(forward="passed"), seen(ended, forward="inconclusive"))
    assert found.kind == "inconclusive"
    assert found.doubt
    assert found.doubt in found.reason


@pytest.mark.parametrize("ended", [BUSY, CROWDED], ids=["busy", "crowded"])
@pytest.mark.parametrize("now", ["passed", "failed"])
def test_a_baseline_that_the_machine_ended_is_as_if_it_were_not_observed(ended, now):
    found = compared(seen(ended, forward="inconclusive"), seen(forward=now))
    assert found.kind == "new"
    assert found.doubt.startswith("not judged in the baseline: ")


@pytest.mark.parametrize("share", [None, 0.8])
def test_a_candidate_that_hangs_is_broken_however_busy_the_machine_was(share):
    hangs = make_failed_observation("timed_out", kind="timeout", others_took=share)
    assert compared(seen(forward="passed"), seen(hangs, forward="failed")).kind == "broken"
