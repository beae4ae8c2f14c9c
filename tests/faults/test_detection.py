"""Each planted fault fails its aspect with the expected text, and its sound twin passes."""

import pytest

from tests.faults.catalogue import FAULTS
from tests.faults.detection import missed, unsound

pytestmark = pytest.mark.long


def _session(fault, request):
    return request.getfixturevalue("generated" if fault.inductor else "decomposed")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_fails_its_aspect_with_the_expected_text(fault, request):
    planted = _session(fault, request)
    assert missed(fault, fault.victim, planted.run, planted.marks) == ""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_its_twin_without_the_fault_passes_everything(fault, request):
    assert unsound(fault, fault.victim, _session(fault, request).run) == ""
