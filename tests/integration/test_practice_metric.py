"""A team's metric is observed, and compiled code that is off at a threshold turns it red."""

import pytest

from tests.integration.conftest import ZOOS

pytestmark = pytest.mark.long

NAMES = (
    "sound_metric",
    "off_at_the_threshold",
    "off_where_chance_decides",
    "rounds_a_score",
    "metric_that_raises",
    "infinite_metric",
)


def case(model):
    return f"{model}-cpu-infer-f32-default-static"


def test_a_metric_that_falls_fails_and_its_twins_pass(compilegate):
    chosen = [word for name in NAMES for word in ("--cases", case(name))]
    session = compilegate(
        "suites/test_metric.py",
        "suites/test_forward.py",
        "--zoo",
        str(ZOOS / "practised_metric.py"),
        *chosen,
    )
    assert session.status == 1, session.output
    for name in ("sound_metric", "off_where_chance_decides", "rounds_a_score"):
        assert session.outcomes(case(name)) == {"passed"}, name
    fallen = session.failed(case("off_at_the_threshold"))
    assert [*fallen] == ["metric"]  # the outputs are within their bounds
    assert fallen["metric"].startswith("metric 0.9, eager 1: change -0.1 [")
    assert "100 worse and 0 better" in fallen["metric"]
    infinite = session.failed(case("infinite_metric"))["metric"]
    assert infinite == "no step could be checked: in eager, 4 of 4 scores are not finite"
    wrong = session.failed(case("metric_that_raises"))
    assert wrong["metric"].startswith("no step could be checked: in eager, AttributeError:")
