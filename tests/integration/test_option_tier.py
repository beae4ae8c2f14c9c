"""``--tier TIER``: how many of the possible cases are observed."""

import pytest

from tests.integration.conftest import FORWARD, MATVEC

COLLECT = (FORWARD, "--models", "matvec", "-m", "cpu", "--collect-only")


def test_an_unknown_tier_suggests_the_nearest(compilegate):
    session = compilegate("--tier", "smok")
    assert session.status == 4
    assert "unknown tier 'smok'; did you mean 'smoke'?" in session.output


def test_each_tier_holds_more_than_the_one_before(compilegate):
    found = {}
    for tier in ("smoke", "standard", "full"):
        session = compilegate(*COLLECT, "-q", "--tier", tier)
        assert session.status == 0, session.output
        found[tier] = {line for line in session.output.splitlines() if "matvec-cpu" in line}
    assert f"{FORWARD}::test_outputs_match_eager[{MATVEC}]" in found["smoke"]
    assert len(found["smoke"]) < len(found["standard"]) < len(found["full"])
    assert found["smoke"] | found["standard"] <= found["full"]


@pytest.mark.parametrize(
    ("given", "expected"), [((), "smoke on cpu"), (("--tier", "full"), "full")]
)
def test_the_header_names_the_tier(compilegate, given, expected):
    assert f"compilegate: tier {expected}" in compilegate(*COLLECT, *given).output
