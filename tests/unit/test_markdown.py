"""Markdown for a job summary: a decision, a table, the rest folded, and nothing that breaks out."""

import re

import pytest

from compilegate.culprits.grouping import Failure, culprits
from compilegate.records.case import Case
from compilegate.reports.case_groups import of_verdicts
from compilegate.reports.case_result import CaseResult
from compilegate.reports.markdown import (
    LIMIT,
    escape,
    exit_status,
    fit,
    of_cases,
    of_comparison,
    of_run,
)
from compilegate.runs.archive import Archive, CaseRecord
from compilegate.upgrade.case_comparison import CaseComparison
from compilegate.upgrade.comparison import Comparison
from compilegate.upgrade.proposals import proposals
from compilegate.upgrade.verdict_changes import Change
from tests.unit.making import (
    CASE_ID,
    make_environment,
    make_failed_observation,
    make_header,
    make_memory,
    make_observation,
    make_timing,
    make_verdict,
)
from tests.unit.runs import seen, write_run

HOSTILE = "<script>alert(1)</script> | a `b` *c* _d_ [e](http://f) @g #1 $x$ www.h.org & ~i~ \\ !"
OTHER_ID = "tiny-cpu-infer-f32-default-static"
#: What GitHub's own Markdown would make something of.
ACTIVE = re.compile(r"[<>|`*\[\]@#$~\\!]|(?<!\w)_|://|www\.")


def test_nothing_of_a_run_is_active_in_markdown():
    assert not ACTIVE.search(re.sub(r"&#\d+;", "", escape(HOSTILE)))
    assert escape("two\nlines\r\nand  more") == "two lines and more"
    assert escape("test_vit-cpu 1.5× → 2") == "test_vit-cpu 1.5× → 2"


def comparison(*items, **how):
    planned = [item.case for item in items]
    old = make_header(planned, environment=make_environment(versions={"torch": "2.14.1"}))
    return Comparison(old, make_header(planned), tuple(items), **how)


def item(kind, index=0, *, text="it broke", details=(), proposal=None):
    effect = {"broken": "broken", "regressed": "worse", "fixed": "fixed", "improved": "better"}
    aspect = "forward" if kind in effect else ""
    change = Change(aspect, effect.get(kind, "note"), text, tuple(details), proposal or {})
    return CaseComparison(f"net{index}-cpu-infer-f32-default-static", kind, (change,))


def rows(text):
    return [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]


def test_the_decision_comes_first_then_what_to_look_at_then_the_rest_folded():
    text = of_comparison(
        comparison(
            item("unchanged", 0),
            item("broken", 1, details=["line 1", "line 2"]),
            item("fixed", 2),
            item("improved", 3, proposal={"max_memory_ratio": 0.5}),
            item("new", 4),
            machines="driver 1 → 2",
            cautions=("take care",),
        )
    )
    lines = text.splitlines()
    assert lines[0].startswith("## torch 2.14.1 → 2.15.0 on AMD EPYC 9655: do not upgrade: 1 br")
    assert "Costs are not compared, because the machines differ: driver 1 → 2." in lines
    assert "> take care" in lines
    opened, folded = text.split("<details><summary>1 fixed", 1)
    assert "net1-cpu" in opened
    assert "line 1<br>line 2" in opened
    assert "net2-cpu" not in opened
    assert "max_memory_ratio = 0.5" in folded
    summaries = re.findall(r"^<details><summary>(.*)</summary>$", text, re.MULTILINE)
    assert summaries == [
        "1 fixed: failed before, passes now",
        "1 improved: better than before",
        "1 new: not in the baseline",
        "1 unchanged: as before",
    ]
    assert text.count("<details>") == text.count("</details>")


def test_cases_that_decide_nothing_are_folded():
    change = Change("speedup", "note", "slower, indicatively")
    quiet = CaseComparison(CASE_ID, "unchanged", (change,))
    text = of_comparison(comparison(quiet))
    assert "notes: 1 difference<" in text
    assert "slower, indicatively" in text


def test_hostile_text_stays_in_its_cell():
    text = of_comparison(comparison(item("broken", text=HOSTILE, details=[HOSTILE])))
    (row,) = [line for line in rows(text) if "net0" in line]
    assert row.count("|") == 4
    assert "<script" not in text


def test_many_rows_that_are_worse_are_folded_but_not_lost():
    text = of_comparison(comparison(*(item("broken", i) for i in range(50))))
    opened, _, folded = text.partition("<details><summary>30 broken")
    assert len(rows(opened)) == 1 + 20
    assert "net49-" in folded


@pytest.mark.parametrize("limit", [2_000, 20_000, LIMIT])
def test_it_never_outgrows_the_limit(limit):
    items = [item("broken", i, text=f"é{i} " + "x" * 500) for i in range(4000)]
    text = of_comparison(comparison(*items), limit)
    assert len(text.encode()) <= limit
    assert "shortened" in text
    assert text.count("<details><summary>4") - text.count("\n</details>") <= 0
    assert text.startswith("## torch")


def test_a_short_summary_is_not_shortened():
    assert fit(["a", "b"], 100) == "a\nb\n"


# One run.


def result(observation=None, **outcomes):
    return CaseResult.of(seen(observation, **outcomes))


FIGURES = make_observation(timing=make_timing(1.5), memory=make_memory(100, 50), cold=True)


def test_a_run_lists_what_failed_and_folds_every_case():
    cases = {
        CASE_ID: result(FIGURES, forward="failed", memory="passed"),
        "b-cpu-infer-f32-default-static": result(
            make_observation(case="b-cpu-infer-f32-default-static"), forward="inconclusive"
        ),
        "c-cpu-infer-f32-default-static": CaseResult.of(CaseRecord(planned=True)),
        "d-cpu-infer-f32-default-static": result(forward="expected_failure"),
    }
    verdicts = [
        make_verdict("failed", summary="forward failed"),
        make_verdict("expected_failure", case="d-cpu-infer-f32-default-static"),
    ]
    found = culprits(Failure(make_observation(case=v.case), v) for v in verdicts)
    text = of_cases(cases, found, make_environment())
    assert text.splitlines()[0] == (
        "## torch 2.15.0 on AMD EPYC 9655: 4 cases, 1 failed, 1 inconclusive, 1 expected failure, "
        "1 not observed"
    )
    row = f"| failed | <code>{CASE_ID}</code> | forward: forward failed<details>"
    assert f"### 1 culprit in 1 case\n\n| | case | what |\n|---|---|---|\n{row}" in text
    assert f"<summary>more</summary>cases: {CASE_ID}<br>aspects: forward</details> |" in text
    assert "<details><summary>1 verdict: inconclusive</summary>" in text
    assert "<details><summary>1 known culprit, whose failures are expected</summary>" in text
    figures = f"| failed | <code>{CASE_ID}</code> | 1e-07 | 1e-07 | 0 | 0 | 1.50× | 4.0 s | 0.50× |"
    assert figures in text
    assert "| not observed | <code>c-cpu-infer-f32-default-static</code> |  |" in text


def test_the_title_of_a_good_run_is_that_none_failed():
    assert "1 case, none failed" in of_cases({CASE_ID: result()}, [], make_environment())
    assert of_cases({CASE_ID: result()}, [], None).startswith("## 1 case, none failed")


def test_a_stored_run_is_shown_as_a_session_shows_it(tmp_path):
    observation = make_failed_observation("raised", message=HOSTILE)
    failed = make_verdict("failed", summary=HOSTILE)
    path = write_run(tmp_path / "a.jsonl", observation, failed, environment=make_environment())
    with Archive(path) as run:
        text = of_run(run)
        assert exit_status(run) == 1
    assert text == of_cases(
        {CASE_ID: CaseResult.of(CaseRecord.of(observation, [failed]))},
        culprits([Failure(observation, failed)]),
        make_environment(),
    )
    assert "<script" not in text


def test_ids_are_not_cut():
    text = of_cases({CASE_ID: result()}, [], None)
    (shown,) = set(re.findall(r"<code>(.*?)</code>", text))
    assert Case.parse(shown).id == CASE_ID


def test_a_crash_is_one_row_for_all_aspects():
    crash = make_failed_observation("crashed", stage="build")
    ended = [make_verdict("failed", aspect=a, summary="crashed") for a in ("forward", "memory")]
    slow = make_verdict("failed", aspect="speedup", summary="0.5×")
    cases = {
        OTHER_ID: CaseResult.of(CaseRecord.of(make_observation(case=OTHER_ID), [slow])),
        CASE_ID: CaseResult.of(CaseRecord.of(crash, ended)),
    }
    rows = of_verdicts(cases, ("failed",))
    assert [(row.aspect, row.cases) for row in rows] == [("", (CASE_ID,)), ("speedup", (OTHER_ID,))]


def test_nothing_is_proposed_for_a_broken_case():
    less = Change("memory", "better", "less", proposal={"max_memory_ratio": 1.0})
    assert proposals(CaseComparison(CASE_ID, "improved", (less,))) == ["max_memory_ratio = 1.0"]
    assert proposals(CaseComparison(CASE_ID, "broken", (less,))) == []


def test_a_case_that_ran_is_in_one_group_per_failed_aspect():
    alike = [make_verdict("failed", aspect=a, summary="wrong") for a in ("forward", "memory")]
    rows = of_verdicts(
        {CASE_ID: CaseResult.of(CaseRecord.of(make_observation(), alike))}, ("failed",)
    )
    assert [row.aspect for row in rows] == ["forward", "memory"]


def test_wrong_answers_stand_above_what_they_cost():
    aspects = ("memory", "recompiles", "gradients")
    verdicts = [make_verdict("failed", aspect=aspect) for aspect in aspects]
    rows = of_verdicts(
        {CASE_ID: CaseResult.of(CaseRecord.of(make_observation(), verdicts))}, ("failed",)
    )
    assert [row.aspect for row in rows] == ["gradients", "recompiles", "memory"]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("passed", 0), ("failed", 1), ("inconclusive", 0), ("skipped", 2)],
)
def test_the_exit_status_is_0_only_where_something_was_judged(tmp_path, outcome, status):
    path = write_run(tmp_path / "a.jsonl", make_observation(), make_verdict(outcome))
    with Archive(path) as run:
        assert exit_status(run) == status
        assert ("nothing was judged" in of_run(run)) is (outcome == "skipped")


def test_an_incomplete_run_has_exit_status_2(tmp_path):
    planned = (CASE_ID, OTHER_ID)
    path = write_run(tmp_path / "a.jsonl", make_observation(), make_verdict(), planned=planned)
    with Archive(path) as run:
        assert exit_status(run) == 2
