"""What live pairs show of a case's costs decides the class of the case."""

import math
from dataclasses import replace

import pytest

from compilegate.records.statistics import Shift
from compilegate.runs.archive import CaseRecord
from compilegate.upgrade.cost_change import CostChange
from compilegate.upgrade.costs import PAIRED
from compilegate.upgrade.paired_costs import judge
from tests.unit.making import CASE_ID, make_observation, make_pair, make_timing, make_verdict
from tests.unit.runs import compare_files, compared, effects, seen, write_run

OTHER_ID = "tiny-cpu-infer-f32-default-static"
FLOOR = math.log1p(0.03)


def cost(kind="worse", *, name="calls", judged=True, grew=12.0):
    """What pairs showed of a cost that grew by this percentage."""
    mean = -math.log1p(grew / 100)
    shift = Shift(mean=mean, low=mean - 0.01, high=mean + 0.01, p_below=0.0, count=5)
    figures = (1e6, 1e6 * (1 + grew / 100))
    return CostChange(CASE_ID, name, kind, judged, shift, shift, figures, FLOOR, 5)


@pytest.mark.parametrize(
    ("kind", "judged", "expected"),
    [
        ("worse", True, "regressed"),
        ("worse", False, "unchanged"),
        ("better", True, "improved"),
        ("better", False, "unchanged"),
        ("unchanged", True, "unchanged"),
        ("unsettled", False, "inconclusive"),
    ],
)
@pytest.mark.parametrize("name", [cost.name for cost in PAIRED])
def test_only_a_growth_that_was_judged_counts(kind, judged, expected, name):
    result = compared(seen(), seen(), costs=[cost(kind, judged=judged, name=name)])
    assert result.kind == expected
    assert bool(result.costlier) == (expected == "regressed")


@pytest.mark.parametrize("entry", PAIRED, ids=lambda entry: entry.name)
def test_a_cost_that_looks_much_worse_and_stays_open_is_not_safe(entry):
    """As between two stored runs. A small growth that stays open allows the upgrade."""
    far = 100 * (entry.doubtful - 1)
    for grew, is_doubtful in ((far + 1, True), (far - 1, False)):
        given = [cost("unsettled", name=entry.name, grew=grew)]
        found = compared(seen(), seen(), costs=given)
        assert (found.kind, found.doubt) == ("inconclusive", given[0].summary * is_doubtful)
        for outcome in ("passed", "expected_failure"):
            allowed = seen(forward="passed", **{entry.aspect: outcome})
            assert not compared(seen(), allowed, costs=given).doubt
    for kind in ("unchanged", "better"):
        assert not compared(seen(), seen(), costs=[cost(kind, name=entry.name, grew=900)]).doubt


def test_a_candidate_that_failed_in_a_fresh_pair_is_not_safe():
    lost = "fresh pair 2: the candidate was not measured (compile: the process died of SIGSEGV)"
    for kind in ("unchanged", "better", "unsettled"):
        given = [cost(kind, grew=5), replace(cost(kind, name="compiling", grew=5), lost=lost)]
        found = compared(seen(), seen(), costs=given)
        assert found.doubt == lost
        assert (found.kind, found.reason) == ("inconclusive", lost)
    assert compared(seen(), seen(), costs=[replace(cost(), lost=lost)]).kind == "regressed"


@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_only_a_candidate_that_failed_alone_is_lost(side):
    given = [make_pair(number, compiled=1.1) for number in range(5)]
    failure = f"the {side} was not measured (call: the process died of SIGSEGV)"
    given[2] = replace(given[2], **{side: None}, failure=failure)
    found = [change.lost for change in judge(given)[CASE_ID] if change.lost]
    assert found == [f"fresh pair 2: {failure}"] * (side == "candidate")
    given[2] = replace(given[2], baseline=None, candidate=None)
    assert not any(change.lost for change in judge(given)[CASE_ID])


def test_a_growth_is_named_once():
    """The verdict of its aspect says the same."""
    failed = make_verdict("failed", aspect="slowdown", summary=cost().summary)
    now = CaseRecord.of(make_observation(), [make_verdict(), failed])
    assert len(compared(seen(forward="passed"), now, costs=[cost()]).changes) == 1


def test_live_pairs_replace_the_comparison_of_two_processes():
    before, now = (make_observation(timing=make_timing(speedup)) for speedup in (2.0, 1.8))
    assert effects(compared(before, now)) == [("speedup", "note")]
    assert compared(before, now, costs=[cost("unchanged")]).changes == ()
    (change,) = compared(before, now, costs=[cost()]).changes
    assert (change.aspect, change.effect) == ("slowdown", "worse")
    assert change.text.startswith("compiled code is slower: 1 → 1.12 ms, +12.0%")


def test_a_pair_that_was_not_measured_replaces_nothing():
    before, now = (make_observation(timing=make_timing(speedup)) for speedup in (2.0, 1.8))
    unmeasured = CostChange(CASE_ID, "calls", "not measured", note="crashed")
    assert effects(compared(before, now, costs=[unmeasured])) == [("speedup", "note")]


def test_a_case_that_is_slower_and_broken_is_not_only_slower():
    result = compared(seen(), seen(forward="failed"), costs=[cost()])
    assert (result.kind, result.costlier) == ("broken", "")


def test_a_cost_that_fell_is_shown():
    (change,) = compared(seen(), seen(), costs=[cost("better", grew=-20.0)]).changes
    assert (change.effect, change.text.partition(";")[0]) == (
        "better",
        "calls cost less: 1 → 0.8 ms, -20.0% [-20.8%, -19.2%]",
    )


@pytest.mark.parametrize("entry", PAIRED, ids=lambda entry: entry.name)
def test_a_growth_that_is_accepted_does_not_count(entry):
    grown, aspect = [cost(name=entry.name)], entry.aspect
    accepted = seen(forward="passed", **{aspect: "expected_failure"})
    result = compared(seen(), accepted, costs=grown)
    (change,) = result.changes
    assert (result.kind, change.effect, result.has_accepted_cost) == ("unchanged", "note", True)
    assert change.text.startswith(f"accepted: {entry.worse}")
    refused = compared(seen(), seen(forward="passed", **{aspect: "failed"}), costs=grown)
    assert (refused.kind, refused.has_accepted_cost) == ("regressed", False)


def test_a_growth_that_a_budget_allows_does_not_count():
    allowed = seen(forward="passed", slowdown="passed")
    assert compared(seen(), allowed, costs=[cost()]).kind == "unchanged"


def test_a_growth_that_a_narrower_budget_forbids_counts():
    forbidden = make_verdict("failed", aspect="slowdown", summary="compiled code is slower: +2.0%")
    now = CaseRecord.of(make_observation(), [make_verdict(), forbidden])
    assert compared(seen(forward="passed"), now, costs=[cost("unchanged")]).kind == "regressed"
    passes = make_verdict("failed", aspect="slowdown", summary="expected to fail, but passed: …")
    now = CaseRecord.of(make_observation(), [make_verdict(), passes])
    assert compared(seen(forward="passed"), now, costs=[cost("unchanged")]).kind == "unchanged"


def test_each_case_gets_its_own_costs(tmp_path):
    observed = [make_observation(case=case) for case in (CASE_ID, OTHER_ID)]
    passed = [make_verdict(case=seen.case) for seen in observed]
    a = write_run(tmp_path / "a.jsonl", *observed, *passed)
    comparison = compare_files(a, a, paired={CASE_ID: [cost()]})
    assert {item.case: item.kind for item in comparison.cases} == {
        CASE_ID: "regressed",
        OTHER_ID: "unchanged",
    }
