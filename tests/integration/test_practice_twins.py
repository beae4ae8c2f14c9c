"""Twins are observed, and a fault that only a twin shows turns them red."""

import re

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

NAMES = (
    "sound_twins",
    "twins_with_dropout",
    "batch_statistics",
    "wrong_for_strides",
    "wrong_for_three",
)
SUITES = ("suites/test_twins.py", "suites/test_forward.py")


def case(model):
    return f"{model}-cpu-train-f32-default-static"


def test_faults_that_a_twin_shows_fail_and_sound_twins_pass(compilegate):
    chosen = [word for name in NAMES for word in ("--cases", case(name))]
    session = compilegate(*SUITES, "--zoo", str(ZOOS / "practised_twins.py"), *chosen)
    assert session.status == 1, session.output
    for sound in NAMES[:3]:
        assert session.outcomes(case(sound)) == {"passed"}, session.output
    for sound in NAMES[:2]:
        assert session.verdicts(case(sound))["twins"].summary.startswith("4 steps, ")
    halves = "not taken: the batch in two parts, the last one first (in eager, output (float32)"
    _, _, reason = session.verdicts(case("batch_statistics"))["twins"].summary.partition(halves)
    assert re.search(r": the twin \S+, the model \S+, reference ", reason), reason
    for wrong, step in (
        ("wrong_for_strides", "views, double transpositions and cut padding after layers"),
        ("wrong_for_three", "the batch in two parts, the last one first"),
    ):
        failed = session.failed(case(wrong))
        assert [*failed] == ["twins"]
        assert failed["twins"].startswith(f"{step}: output (float32): root mean square error")
