"""Models that do not run in float64: their probing calls have a reference in float32, too."""

import pytest
from torch.compiler import is_compiling

from tests.unit.observed import Linear
from tests.unit.probed import probed, verdict_of


def refusing(x, y):
    """Refuse float64, as the grouped products of experts do."""
    if y.element_size() == 8:
        raise RuntimeError("expected float32 or lower")
    return y


def wrong_at_one(x, y):
    return refusing(x, y) * (1.5 if is_compiling() and len(x) == 1 else 1.0)


@pytest.mark.parametrize(("action", "outcome"), [(refusing, "passed"), (wrong_at_one, "failed")])
def test_a_batch_of_one_is_compared_with_a_reference_in_float32(action, outcome):
    seen = probed(lambda: Linear(action))
    assert seen.reference.startswith("float32; not float64: RuntimeError")
    assert not any("reference" in line for line in seen.unprobed)
    verdict = verdict_of(seen)
    assert verdict.outcome == outcome, verdict
    assert outcome == "passed" or "batch of one" in verdict.summary
