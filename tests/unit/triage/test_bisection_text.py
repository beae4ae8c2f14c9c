"""What a report says of a bisection."""

import pytest

from compilegate.triage.findings import Findings
from compilegate.triage.report import bisection_text

NAMED = {"backend": "inductor", "subsystem": "lowerings", "what": "flip", "number": 2}
UNNAMED = {"backend": "inductor", "subsystem": "", "what": ""}


@pytest.mark.parametrize(("found", "is_named"), [(NAMED, True), (UNNAMED, False)])
def test_a_bisection_that_names_no_step_acquits_none(found, is_named):
    said = " ".join(bisection_text.lines(Findings(bisected=found)))
    assert ("`lowerings`, application 2" in said) == is_named
    no_help = "Leaving out any single step did not help: a fault that runs in two "
    no_help += "steps cannot be found this way."
    assert (no_help in said) != is_named
    assert "right" not in said
