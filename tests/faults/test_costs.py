"""A fault of cost exceeds thresholds that come from its sound twin, and the twin keeps to them.

A test is skipped if other processes kept the machine busy throughout.
"""

import pytest

from tests.faults.catalogue import COSTS
from tests.faults.detection import missed, unsound

pytestmark = pytest.mark.long


def _decided(judged, cases):
    if undecided := [text for text in judged.undecided() if text.startswith(cases)]:
        pytest.skip(f"the machine was busy in every attempt: {undecided[0]}")


@pytest.mark.parametrize("fault", COSTS, ids=lambda fault: fault.name)
def test_a_costly_fault_fails_its_aspect_with_the_expected_text(fault, costs):
    _decided(costs, (fault.case(fault.victim), fault.twin(fault.victim)))
    planted = costs.of(fault)
    assert missed(fault, fault.victim, planted.run, planted.marks) == ""


@pytest.mark.parametrize("fault", COSTS, ids=lambda fault: fault.name)
def test_its_twin_passes_everything(fault, costs):
    _decided(costs, (fault.twin(fault.victim),))
    assert unsound(fault, fault.victim, costs.twin_of(fault).run) == ""
