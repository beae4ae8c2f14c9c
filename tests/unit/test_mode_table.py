"""Which mode to use: modes are compared by the practice, or by cases that differ in their mode."""

from pathlib import Path

import pytest

from compilegate.records.practice import Practice, figures_of
from compilegate.records.statistics import Interval
from compilegate.reports import html, markdown
from compilegate.reports.columns import Figures
from compilegate.reports.columns import figures_of as figures_of_case
from compilegate.reports.mode_table import Mode, ModeRow, mode_rows
from compilegate.runs.archive import Archive
from tests.unit.making import make_observation, make_timing

CLAIMS = Path(__file__).parents[1] / "data" / "h200-claims.jsonl.gz"
CASE = "net-cuda-infer-bf16-{}-static"
ONE = Interval(1.0, 1.0, 1.0)


def timed(value, spread=0.0):
    return Figures({}, speedup=Interval(value, value - spread, value + spread))


def test_cases_that_differ_in_their_mode_alone_are_compared():
    (row,) = mode_rows(
        {
            CASE.format("default"): timed(2.0, 0.1),
            CASE.format("reduce_overhead"): timed(3.0, 0.1),
            "net-cuda-infer-bf16-reduce_overhead-auto": timed(9.0),
            "net-cuda-infer-bf16-reduce_overhead-static-regional": timed(9.0),
            "other-cuda-infer-bf16-reduce_overhead-static": timed(9.0),
        }
    )
    assert row.case == CASE.format("default")
    assert row.use == ("reduce_overhead",)
    _, graphs = row.modes
    assert graphs.over_eager.value == 3.0
    assert graphs.over_default == Interval(1.5, 2.9 / 2.1, 3.1 / 1.9)


def test_a_mode_that_the_practice_timed_takes_the_place_of_the_quotient():
    direct = Interval(1.2, 1.1, 1.3)
    usual = Figures({}, speedup=Interval(2.0, 1.9, 2.1), modes={"reduce_overhead": direct})
    (row,) = mode_rows({CASE.format("default"): usual, CASE.format("reduce_overhead"): timed(9.0)})
    assert row.modes[1] == Mode("reduce_overhead", timed(9.0).speedup, direct)


def test_the_practice_is_enough_for_a_row():
    practice = Practice(figures=figures_of("lite", Interval(0.5, 0.4, 0.6)))
    seen = figures_of_case(make_observation(practices={"backends": practice}))
    (row,) = mode_rows({CASE.format("default"): seen})
    assert [mode.name for mode in row.modes] == ["default", "lite"]
    assert row.use == ("default",)


@pytest.mark.parametrize(
    ("intervals", "use"),
    [
        ([Interval(1.5, 1.4, 1.6)], ("a",)),
        ([Interval(1.1, 0.9, 1.3)], ("default",)),
        ([Interval(0.5, 0.4, 0.6)], ("default",)),
        ([Interval(1.5, 1.4, 1.6), Interval(1.2, 1.1, 1.3)], ("a",)),
        ([Interval(1.5, 1.4, 1.6), Interval(1.45, 1.3, 1.5)], ("a", "b")),
        ([Interval(1.5, 0.9, 2.6), Interval(1.2, 1.1, 1.3)], ("b",)),
    ],
)
def test_the_fastest_beyond_the_intervals_is_the_one_to_use(intervals, use):
    modes = [Mode(name, None, seen) for name, seen in zip("ab", intervals, strict=False)]
    assert ModeRow("net", (Mode("default", None, ONE), *modes)).use == use


def test_one_mode_alone_has_no_row():
    assert (
        mode_rows({CASE.format("default"): timed(2.0), CASE.format("max_autotune"): Figures({})})
        == []
    )
    assert mode_rows({CASE.format("max_autotune"): timed(2.0)}) == []


def test_both_reports_of_a_recorded_run_have_the_table():
    with Archive(CLAIMS) as run:
        text = markdown.of_run(run)
        page = "".join(html.of_run(run))
    assert "Which mode to use: 1 setting" in text
    (row,) = [line for line in text.splitlines() if line.startswith("|  | reduce_overhead")]
    assert (
        row == "|  | reduce_overhead | 2.61× &#91;2.56, 2.67&#93; | 1.94× &#91;1.82, 2.06&#93; |  |"
    )
    assert "<td>resnet50-cuda-infer-bf16-default-static</td><td>default</td>" in page
    assert "1.94× [1.82, 2.06]" in page


def test_a_run_of_one_mode_has_no_table():
    seen = make_observation(timing=make_timing())
    assert mode_rows({seen.case: figures_of_case(seen)}) == []
