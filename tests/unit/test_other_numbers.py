"""A model that means something else under the candidate is no healthy one."""

import dataclasses
import math

import pytest

from compilegate.reports.comparison_text import comparison_lines
from tests.unit.making import make_call, make_checked, make_error, make_observation, make_verdict
from tests.unit.runs import OLD, compare_files, compared, write_run

OTHER = "eager and the reference give other numbers than before"


def computing(scale, **changed):
    error = make_error(scale=scale, **changed)
    return make_observation(calls=(make_call(outputs=make_checked(error)),))


@pytest.mark.parametrize(
    ("before", "now", "is_other"),
    [
        (1.1, 1.1, False),
        (1.1, 1.105, False),  # a reference that rounds as the model casts
        (1.1, 1.55, True),
        (1.1, 0.0, True),
        (0.0, 1.1, True),
        (0.0, 0.0, False),
        (1.1, math.nan, True),
        (math.nan, math.nan, False),
    ],
)
def test_other_outputs_of_the_reference_leave_a_live_pair_open(before, now, is_other):
    given = computing(before), computing(now)
    live = compared(*given, paired=True)
    assert live.kind == ("inconclusive" if is_other else "unchanged")
    assert (f"{OTHER}: output at call 1" in live.reason) == is_other
    assert (OTHER in live.doubt) == is_other  # the answer is *cannot say*
    stored = compared(*given)
    assert stored.kind == "unchanged"
    assert [change.effect for change in stored.changes] == is_other * ["note"]


@pytest.mark.parametrize(
    "now",
    [
        computing(2.0, name="another"),
        computing(2.0, has_reference=False),
        dataclasses.replace(computing(2.0), seed=7),
    ],
    ids=["only one side has it", "no reference", "another seed"],
)
def test_what_cannot_be_compared_is_no_other_number(now):
    given = computing(1.0), now
    assert compared(*given, paired=True).kind in ("unchanged", "not comparable")


@pytest.mark.parametrize(("revision", "expected"), [("abc", 1), ("def", 0)])
def test_two_stored_runs_of_one_revision_have_a_note_under_the_decision(
    tmp_path, revision, expected
):
    runs = [
        write_run(
            tmp_path / f"{name}.jsonl", one, make_verdict(case=one.case), revision=of, **environment
        )
        for name, one, of, environment in (
            ("a", computing(1.0), "abc", {"environment": OLD}),
            ("b", computing(1.02), revision, {}),
        )
    ]
    comparison = compare_files(*runs)
    assert len([line for line in comparison.notes if "gives other numbers" in line]) == expected
    text = " ".join(comparison_lines(comparison, everything=True))
    assert ("note: eager itself gives other numbers in 1 case" in text) == bool(expected)
