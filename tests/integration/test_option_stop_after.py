"""``--stop-after MINUTES``: no case is begun later, those that were begun end."""

import pytest

from tests.integration.conftest import BREAKS, MATVEC, ZOOS

LINGERING = "a_lingering-cpu-infer-f32-default-static"
HEALTHY = "b_healthy-cpu-infer-f32-default-static"
ZOO = ("--zoo", str(ZOOS / "lingering.py"))


@pytest.mark.long
def test_a_case_that_was_begun_ends_and_the_others_wait_for_resume(compilegate):
    cases = ("--cases", LINGERING, "--cases", HEALTHY, "-n", "1")
    first = compilegate(BREAKS, *ZOO, *cases, "--save", "part", "--stop-after", "0.35")
    assert first.status == 2
    assert first.counts == {"passed": 1, "skipped": 1}
    assert "2 cases, none failed, 1 not observed" in first.output
    assert "--resume part" in first.output
    assert first.observed == [LINGERING]
    assert first.outcomes(LINGERING) == {"passed"}
    assert first.verdicts(HEALTHY) == {}, "what was not begun has no verdict"

    resumed = compilegate(BREAKS, *ZOO, "--resume", "part", "--stop-after", "9")
    assert resumed.status == 0
    assert resumed.counts == {"passed": 2}
    assert resumed.run().closing is not None


@pytest.mark.parametrize("minutes", ["0", "-3", "nan"])
def test_zero_minutes_are_refused(compilegate, minutes):
    session = compilegate("--cases", MATVEC, "--stop-after", minutes)
    assert session.status == 4
    assert f"--stop-after {minutes}: expected minutes above 0" in session.output
