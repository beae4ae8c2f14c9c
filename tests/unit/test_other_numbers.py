"""A comparison tells where eager itself computes something else, which no reference shows."""

import dataclasses

import pytest

from compilegate.reports.comparison_text import comparison_lines
from tests.unit.making import make_call, make_checked, make_error, make_observation, make_verdict
from tests.unit.runs import OLD, compare_files, write_run


def observed(scale, **changed):
    error = make_error("output", scale=scale, **changed)
    return make_observation(calls=(make_call(outputs=make_checked(error)),))


def compared(tmp_path, before, now):
    runs = []
    for name, one, how in (("a", before, {"environment": OLD}), ("b", now, {})):
        verdict = make_verdict(case=one.case)
        runs.append(write_run(tmp_path / f"{name}.jsonl", one, verdict, **how))
    return compare_files(*runs)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (observed(1.02), True),
        (observed(1.0005), False),
        (observed(1.02, has_reference=False), False),
        (dataclasses.replace(observed(1.02), seed=7), False),
    ],
    ids=["another scale", "rounding", "no reference to compare", "another seed"],
)
def test_another_scale_of_the_reference_is_a_note(tmp_path, now, expected):
    comparison = compared(tmp_path, observed(1.0), now)
    assert any("eager itself computes other numbers" in line for line in comparison.notes) is (
        expected
    )
    assert comparison.counts["regressed"] == comparison.counts["eager regressed"] == 0


def test_the_note_stands_under_the_decision(tmp_path):
    comparison = compared(tmp_path, observed(1.0), observed(1.02))
    text = " ".join(comparison_lines(comparison, everything=True))
    assert "eager itself computes other numbers in 1 case" in text
    assert "the root mean square of output in call 1 is 1 → 1.02" in text
