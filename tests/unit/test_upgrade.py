"""The upgrade suite: its verdict is the class of the case, judged by the rules of all suites."""

import pytest

from compilegate.judging.aspects import ASPECTS
from compilegate.judging.budget import Budget
from compilegate.judging.expected_failure import ExpectedFailure
from compilegate.judging.finding import Finding
from compilegate.judging.judge import judge_change
from compilegate.judging.rules import rules, verdicts
from compilegate.records.case import Case
from compilegate.runs.archive import Archive, CaseRecord
from compilegate.runs.slim import slim_observation
from compilegate.suites.test_upgrade import rule
from compilegate.upgrade.baseline import StoredBaseline
from compilegate.upgrade.case_comparison import CLASSES, WORSE, CaseComparison, compare_case
from compilegate.upgrade.verdict_changes import Change
from tests.unit.making import (
    CASE_ID,
    make_break,
    make_call,
    make_capture,
    make_checked,
    make_difference,
    make_environment,
    make_failed_observation,
    make_header,
    make_observation,
    make_verdict,
)
from tests.unit.runs import ABSENT, UNOBSERVED, write_run

WANTS = ("capture", "time", "memory", "vary", "random")
HEALTHY = make_observation(wants=WANTS)
#: What these budgets allow is not what is compared.
LAX = Budget(max_graph_breaks=9)
OTHER_ID = "tiny-cpu-infer-f32-default-static"
FULL_ID = "tiny-cpu-infer-bf16-default-static"


def before(observation=HEALTHY, budget=LAX):
    """What a baseline holds that this very compilegate has judged."""
    return CaseRecord.of(observation, verdicts(observation, budget))


def judged(now, then=HEALTHY, budget=LAX, **how):
    seen = CaseRecord.of(now, verdicts(now, budget))
    return rule(compare_case(now.case, before(then, budget), seen, **how))


def test_every_suite_but_this_is_compared():
    compared = {aspect.name for aspect, _ in rules()}
    assert compared == {name for name, aspect in ASPECTS.items() if not aspect.needs}


def test_the_verdicts_equal_those_of_the_suites():
    given = {verdict.aspect: verdict for verdict in verdicts(HEALTHY, LAX)}
    assert given["forward"].outcome == "passed"
    assert given["speedup"].outcome == "skipped"
    assert "energy" not in given  # on a GPU only
    assert "compile_time" not in given  # where it is cold only
    cold = make_observation(wants=WANTS, cold=True)
    assert "compile_time" in {verdict.aspect for verdict in verdicts(cold, LAX)}


def test_the_same_passes():
    assert judged(HEALTHY) == Finding("passed", "unchanged")


WRONG = make_observation(
    wants=WANTS, calls=(make_call(outputs=make_checked(differences=[make_difference()])),) * 2
)
BREAKS = make_observation(wants=WANTS, capture=make_capture(breaks=(make_break(),)))


@pytest.mark.parametrize(
    ("now", "outcome", "summary"),
    [
        (WRONG, "failed", "broken: forward: call 1: output[0]: stride differs"),
        (make_failed_observation("crashed"), "failed", "broken: stage compile: crashed in stage"),
        (BREAKS, "failed", "regressed: graph_breaks: 1 new graph break"),
    ],
)
def test_what_is_worse_fails_and_the_other_way_passes(now, outcome, summary):
    found = judged(now)
    assert found.outcome == outcome
    assert found.summary.startswith(summary)
    assert judged(HEALTHY, now).outcome == "passed"
    assert judged(now, now).outcome == "passed"


def test_a_break_that_the_budget_allows_is_new_nevertheless():
    given = {verdict.aspect: verdict.outcome for verdict in verdicts(BREAKS, LAX)}
    assert given["graph_breaks"] == "passed"
    assert judged(BREAKS).outcome == "failed"


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_has_an_outcome(kind):
    expected = dict.fromkeys((*WORSE, "gone"), "failed")
    expected |= {"inconclusive": "inconclusive", "new": "skipped", "not comparable": "skipped"}
    comparison = CaseComparison(CASE_ID, kind, (Change("", "note", "why"),))
    assert rule(comparison).outcome == expected.get(kind, "passed")


def test_a_doubtful_case_that_cannot_be_compared_is_inconclusive():
    doubtful = CaseComparison(CASE_ID, "new", (Change("", "note", "why"),), "why")
    assert rule(doubtful).outcome == "inconclusive"


def test_all_lists_changes_and_budgets_that_keep_improvements():
    changes = (
        Change("graph_breaks", "worse", "1 new graph break: a", ("b",)),
        Change("memory", "better", "peak 2 → 1 MiB", proposal={"max_memory_ratio": 0.5}),
    )
    found = rule(CaseComparison(CASE_ID, "regressed", changes))
    assert found.summary == "regressed: graph_breaks: 1 new graph break: a"
    assert found.details == (
        "  b",
        "better: memory: peak 2 → 1 MiB",
        "budget: max_memory_ratio = 0.5",
    )


# What is accepted.

GONE = Finding("failed", "gone: planned, but not observed")


def accepting(**entry):
    return Budget(expected_failures=(ExpectedFailure("we can live with it", **entry),))


def test_a_change_is_accepted_by_an_entry_for_this_aspect():
    verdict = judge_change(CASE_ID, accepting(aspect="upgrade"), "upgrade", GONE).verdict
    assert verdict.outcome == "expected_failure"
    assert verdict.summary == "we can live with it: gone: planned, but not observed"
    same = Finding("passed", "unchanged")
    strict = judge_change(CASE_ID, accepting(aspect="upgrade"), "upgrade", same).verdict
    assert strict.outcome == "failed"
    assert "expected to fail, but passed" in strict.summary


@pytest.mark.parametrize(
    ("match", "outcome"), [("other numbers", "expected_failure"), ("a crash", "inconclusive")]
)
def test_what_a_comparison_leaves_open_is_accepted_by_such_an_entry(match, outcome):
    left_open = Finding("inconclusive", "inconclusive: eager gives other numbers")
    budget = accepting(aspect="upgrade", match=match)
    assert judge_change(CASE_ID, budget, "upgrade", left_open).verdict.outcome == outcome


@pytest.mark.parametrize("entry", [{"aspect": "forward"}, {"stage": "compile"}])
def test_entries_for_other_aspects_or_stages_accept_no_change(entry):
    assert judge_change(CASE_ID, accepting(**entry), "upgrade", GONE).verdict.outcome == "failed"
    same = Finding("passed", "unchanged")
    assert judge_change(CASE_ID, accepting(**entry), "upgrade", same).verdict.outcome == "passed"


# The baseline of a session.


@pytest.fixture
def stored(tmp_path):
    """A baseline of three cases, one of which was planned and not observed."""
    records = [r for c in (CASE_ID, OTHER_ID) for r in (make_observation(case=c), make_verdict())]
    path = write_run(
        tmp_path / "old.jsonl", *records, planned=(CASE_ID, OTHER_ID, FULL_ID), complete=False
    )
    with Archive(path) as archive:
        yield archive


def baseline(archive, *here, select=list, tier=None):
    cases = [Case.parse(case) for case in here]
    return StoredBaseline(archive, cases, select, tier or {"cpu": "smoke"})


def test_cases_that_the_session_lacks_are_gone(stored):
    assert [case.id for case in baseline(stored, CASE_ID).gone] == [OTHER_ID, FULL_ID]
    assert baseline(stored, CASE_ID, OTHER_ID, FULL_ID).gone == []


def test_cases_that_the_session_would_not_select_are_not_gone(stored):
    narrow = baseline(stored, CASE_ID, select=lambda cases: [c for c in cases if c.id == FULL_ID])
    assert [case.id for case in narrow.gone] == [FULL_ID]


def test_cases_of_another_tier_are_not_gone_and_cause_a_caution(stored):
    other = baseline(stored, CASE_ID, tier={"cpu": "full"})
    assert other.gone == []
    comparison = other.compare(make_header(planned=(CASE_ID,)), [CASE_ID], {})
    assert any("of the tier smoke: 2 of its cases are no part" in c for c in comparison.cautions)


def test_a_session_that_ended_early_leaves_no_case_out(stored):
    held = baseline(stored, CASE_ID, OTHER_ID, FULL_ID)
    found = {CASE_ID: CaseComparison(CASE_ID, "unchanged")}
    header = make_header(planned=(CASE_ID, OTHER_ID, FULL_ID))
    comparison = held.compare(header, header.planned, found)
    assert [(item.case, item.kind) for item in comparison.cases] == [
        (CASE_ID, "unchanged"),
        (OTHER_ID, "gone"),
        (FULL_ID, "not comparable"),  # neither observed it
    ]
    assert comparison.baseline.planned == comparison.candidate.planned == header.planned


def test_a_case_that_vanished_names_the_reason(stored):
    held = baseline(stored, CASE_ID)
    assert held.vanished(Case.parse(OTHER_ID)).reason == "not in the candidate's plan"
    assert held.seen(Case.parse(CASE_ID)).observation == slim_observation(make_observation())
    assert held.seen(Case.parse(FULL_ID)) == UNOBSERVED
    assert held.seen(Case.parse("none-cpu-infer-f32-default-static")) == ABSENT


def test_times_compare_on_the_machine_of_the_baseline_only(stored):
    held = baseline(stored, CASE_ID)
    case = Case.parse(CASE_ID)
    assert held.times_compare(case, make_environment())
    assert held.times_compare(case, None)
    assert not held.times_compare(case, make_environment(devices=()))


def test_a_baseline_is_described_by_its_torch(stored):
    assert "torch 2.15.0+cu130, 2 cases observed" in baseline(stored, CASE_ID).describe()
