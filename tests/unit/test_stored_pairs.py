"""Pairs that run files hold, as comparisons of runs take them."""

import math

import pytest

from compilegate.runs.archive import Archive
from compilegate.upgrade.comparison import compare
from compilegate.upgrade.paired_costs import cost_changes, judge
from tests.unit.making import CASE_ID as CASE
from tests.unit.making import (
    make_environment,
    make_inventory,
    make_observation,
    make_pair,
)
from tests.unit.runs import NEW, OLD, compared, seen, write_run

CALLS = "calls"


def pairs(*compiled, eager=1.0, first=None):
    """A screening pair and fresh ones, whose calls take these multiples of the baseline's."""
    return [make_pair(0, compiled=first or compiled[0], eager=eager)] + [
        make_pair(k, compiled=c, eager=eager) for k, c in enumerate(compiled, start=1)
    ]


def of(changes, cost=CALLS):
    return next(change for change in changes if change.cost == cost)


@pytest.mark.parametrize("threads", ["4", "8"])
def test_screening_pairs_show_the_spread_of_the_machine_only_in_one_environment(tmp_path, threads):
    """Forty screening pairs that differ by 10% are noise in A/A, and may be a change otherwise."""
    ids = [f"m{i}-cpu-infer-f32-default-static" for i in range(40)]
    moved = [make_pair(0, case, compiled=1.1 if i % 2 else 0.9) for i, case in enumerate(ids)]
    fresh = [make_pair(k, ids[1], compiled=1.05) for k in range(1, 6)]
    variables = make_inventory(variables={"OMP_NUM_THREADS": threads})
    sides = {
        "a": make_environment(inventory=variables),
        "a.baseline": make_environment(inventory=make_inventory()),
    }
    for name, environment in sides.items():
        records = [make_observation(case=case) for case in ids]
        records += [*moved, *fresh] if name == "a" else []
        baseline = "a.baseline" if name == "a" else ""
        write_run(tmp_path / f"{name}.jsonl", *records, environment=environment, baseline=baseline)
    with (
        Archive(tmp_path / "a.jsonl") as candidate,
        Archive(tmp_path / "a.baseline.jsonl") as baseline,
    ):
        seen = of(cost_changes(baseline, candidate)[ids[1]])
    assert seen.fails is (threads == "8")


def test_stored_pairs_count_where_both_runs_are_of_one_session(tmp_path):
    now = [make_observation(), *pairs(1.25, 1.26, 1.24, 1.25, 1.25)]
    write_run(tmp_path / "a.jsonl", *now, environment=NEW, baseline="a.baseline")
    write_run(tmp_path / "a.baseline.jsonl", make_observation(), environment=OLD)
    write_run(tmp_path / "b.jsonl", make_observation(), environment=OLD)
    (tmp_path / "night").mkdir()
    write_run(tmp_path / "night" / "a.baseline.jsonl", make_observation(), environment=OLD)
    with (
        Archive(tmp_path / "a.jsonl") as candidate,
        Archive(tmp_path / "a.baseline.jsonl") as baseline,
        Archive(tmp_path / "b.jsonl") as other,
        Archive(tmp_path / "night" / "a.baseline.jsonl") as of_another_night,
    ):
        changes = cost_changes(baseline, candidate)
        assert cost_changes(other, candidate) is None
        assert cost_changes(of_another_night, candidate) is None
        assert cost_changes(baseline, other) is None
        comparison = compare(baseline, candidate, changes)
    change = of(changes[CASE])
    assert (change.kind, change.judged) == ("worse", True)
    assert change.compiled.low < change.compiled.mean < change.compiled.high
    assert math.exp(change.compiled.mean) == pytest.approx(0.8, abs=0.002)
    (case,) = comparison.cases
    assert (case.kind, case.costlier) == ("regressed", "slower")


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (pairs(1.4, 1.0, 1.0, 1.0, 1.0), "inconclusive"),
        (pairs(1.0, 1.01, 0.99, 1.0, 1.0, eager=0.8, first=1.3), "unchanged"),
        ([make_pair(compiled=1.3)], "inconclusive"),  # a suspect without its pairs
        ([make_pair(compiled=0.5)], "unchanged"),
        ([make_pair(candidate=None, failure="crashed")], "unchanged"),
    ],
)
def test_only_a_growth_that_was_judged_counts(given, kind):
    changes = judge(given)[CASE]
    assert compared(seen(), seen(), case=CASE, costs=changes).kind == kind
